// A rail for GPU memory that the real rails cannot reach: carries chunks through pinned slots.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/mutex.h"
#include "cuda/staging.h"
#include "rail/pending_list.h"
#include "rail/rail.h"

namespace railyard {

/// One GPU's staging. A chunk's `local` is a device address, its `remote` the peer's pointer. WRITE: chunks
/// are copied into a slot, and from there one of `Route::carriers` writes them; READ: the other way round.
/// Small chunks share a slot. All slots are under way at the same time, and submissions take turns by slot;
/// none takes the last of them while it has many, and one whose carriers' gates are all closed has one slot
/// at most.
///
/// A carrier's route names a real rail, with the descriptor of ring().memory() on that rail as descriptors[0]
/// and keys by the transfer's remote regions. Slots end by progress() of this rail, and those that are with a
/// carrier by progress of that rail as well: somebody has to look while has_work().
///
/// An error of a carrier ends all chunks of its slot; a copy that fails ends them with Status::backend (the
/// driver's reason is in the log). A work that was stopped: its chunks outside of slots end at once, the
/// others when their slot is over.
///
/// Order of going: first the carriers, or at least the registrations of the ring's memory on them, so that no
/// NIC touches memory that was freed; then this. What is left ends without a word, as with other rails.
class StagingRail final : public Rail {
  public:
    /// Chunks that one slot takes at most.
    static constexpr std::uint32_t pieces_per_slot = 256;
    /// While peers that were given up may still use all slots a work waits, for so long; they come back in a
    /// second or two where peers can be kept from them (ADR 46). Then it ends with Status::backend.
    static constexpr std::uint64_t lost_limit_ns = 5'000'000'000;

    explicit StagingRail(std::string name);
    /// Waits for copies under way, up to 2 s; a GPU that takes longer keeps the ring, which is logged.
    ~StagingRail() override;

    /// Makes the ring, once: further calls do nothing. Any thread; before the first submission. Throws
    /// Error{backend}, and may be called again then. Slow: pins slots * slot_bytes.
    void open(cuda::ContextPtr context, unsigned slots, std::size_t slot_bytes,
              std::shared_ptr<const cuda::CopyKernel> kernel = nullptr);
    [[nodiscard]] bool is_open() const noexcept { return opened_.load(std::memory_order_acquire) != nullptr; }
    /// What carriers register; after open() only.
    [[nodiscard]] const cuda::StagingRing& ring() const noexcept;

    /// GPU memory is not registered with this rail: the ring is, with others.
    RegisteredMemory register_memory(const MemoryRange&) override { return {}; }
    [[nodiscard]] bool reaches_gpu_memory() const noexcept override { return true; }
    [[nodiscard]] std::string address() const override { return {}; }
    /// A slot, 512 KiB at most; 0 before open().
    [[nodiscard]] std::uint64_t max_chunk() const noexcept override;
    /// Copies and carriers tell nobody: look while has_work().
    [[nodiscard]] bool needs_polling() const noexcept override { return false; }

  private:
    struct Slot;
    struct Opened;

    bool serve(bool drain_first) noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    PeerAddress do_insert_peer(std::string_view) override { return 0; }
    void do_remove_peer(PeerAddress) noexcept override {}
    bool may_wait() noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) { return !has_work(); }

    bool advance(Opened& opened) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool advance_copies(Opened& opened, PendingList<Slot>& copying) noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool advance_carried(Opened& opened) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool start_slots(Opened& opened) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool may_take_slot(const Opened& opened, const Submission& submission) const noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    static bool fill(Opened& opened, Slot& slot, Submission& submission) noexcept;
    void copy(Opened& opened, Slot& slot) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void carry(Opened& opened, Slot& slot) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void finish(Opened& opened, Slot& slot, Status status) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void take_back(Opened& opened) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    static bool may_still_be_touched(Opened& opened, Slot& slot) noexcept;

    Mutex open_mutex_;
    std::unique_ptr<Opened> owner_ ABSL_GUARDED_BY(open_mutex_);
    std::atomic<Opened*> opened_{nullptr};  // release by open(), acquire by everybody
    PendingList<Submission> pending_ ABSL_GUARDED_BY(role_);
    std::uint32_t waiting_ ABSL_GUARDED_BY(role_) = 0;  ///< submissions in pending_
    std::uint32_t busy_ ABSL_GUARDED_BY(role_) = 0;     ///< slots, the lost ones among them
    /// Slots that a peer which was given up may still read or write: nobody gets them before it says that it
    /// does not.
    std::uint32_t lost_ ABSL_GUARDED_BY(role_) = 0;
};

}  // namespace railyard
