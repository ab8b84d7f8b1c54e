// A ring of pinned buffers between GPU memory and rails that cannot reach it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "common/status.h"
#include "cuda/copy_stream.h"
#include "cuda/pinned_memory.h"

namespace railyard::cuda {

/// A piece of GPU memory and where it lies in a slot.
struct StagedPiece {
    std::uint64_t device_address = 0;
    std::uint64_t offset = 0;  ///< into the slot
    std::uint64_t length = 0;
};

/// `slots` buffers of `slot_bytes` each, in one allocation that rails register once. A slot goes: take, then
/// fill from the GPU or be filled by a rail, copy, poll, give_back. Any thread; a slot belongs to whoever
/// took it. Nothing blocks, and nothing is allocated after construction. Each direction has a stream of its
/// own.
class StagingRing {
  public:
    static constexpr unsigned no_slot = ~0U;

    /// Both > 0; `kernel` as for CopyStream. Throws Error{backend}.
    StagingRing(ContextPtr context, unsigned slots, std::size_t slot_bytes,
                std::shared_ptr<const CopyKernel> kernel = nullptr);

    /// What rails register.
    [[nodiscard]] const PinnedMemory& memory() const noexcept { return *memory_; }
    [[nodiscard]] const std::shared_ptr<const PinnedMemory>& shared_memory() const noexcept {
        return memory_;
    }
    [[nodiscard]] unsigned slots() const noexcept { return static_cast<unsigned>(slots_.size()); }
    [[nodiscard]] std::size_t slot_bytes() const noexcept { return slot_bytes_; }

    /// no_slot: all are taken; come back after one was given back. First in, first out.
    [[nodiscard]] unsigned take() noexcept;
    /// After poll() ended, or where nothing was started.
    void give_back(unsigned slot) noexcept;
    [[nodiscard]] std::byte* data(unsigned slot) const noexcept {
        return memory_->data() + slot * slot_bytes_;
    }

    /// Starts the copies of the pieces from the GPU into the slot, or out of it. The pieces lie inside the
    /// slot; `reach` is `pinned`, or `unknown` where the GPU's threads may not touch its memory. Returns
    /// in_progress; poll() tells how it ends, also when the driver refused a copy. invalid_param: a piece
    /// leaves the slot, and nothing was started.
    Status copy_from_device(unsigned slot, const StagedPiece* pieces, std::size_t count,
                            Reach reach = Reach::pinned) noexcept;
    Status copy_to_device(unsigned slot, const StagedPiece* pieces, std::size_t count,
                          Reach reach = Reach::pinned) noexcept;
    /// Of the copies that were started last: in_progress, ok or backend.
    Status poll(unsigned slot) noexcept;
    /// They were given up, and may still be under way (CopyStream): the slot cannot be given back.
    [[nodiscard]] bool has_left(unsigned slot) noexcept { return stream_of(slot).has_left(slot); }
    /// Why the last one failed.
    [[nodiscard]] std::string last_error() const;

  private:
    enum class Direction : std::uint8_t { from_device, to_device };
    [[nodiscard]] CopyStream& stream_of(unsigned slot) noexcept {
        return slots_[slot] == Direction::from_device ? from_device_ : to_device_;
    }
    Status copy(unsigned slot, Direction direction, const StagedPiece* pieces, std::size_t count,
                Reach reach) noexcept;

    std::size_t slot_bytes_;
    std::shared_ptr<const PinnedMemory> memory_;  // freed after the streams have ended
    CopyStream from_device_, to_device_;
    std::vector<Direction> slots_;  ///< the direction of a slot's last copies
    Mutex mutex_;
    std::vector<unsigned> free_ ABSL_GUARDED_BY(mutex_);  ///< a ring
    std::size_t first_free_ ABSL_GUARDED_BY(mutex_) = 0, free_count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace railyard::cuda
