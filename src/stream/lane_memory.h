// The words that lanes share with their streams: cells of pinned memory, many in one allocation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "cuda/context_guard.h"

namespace railyard {

namespace cuda {
class PinnedMemory;
}

/// Each word on a cache line of its own: the GPU writes one, we write the other.
struct LaneCell {
    /// Number of the last transfer that the stream has come to. Written by the stream, behind a fence; our
    /// acquire load sees all that the stream did before.
    alignas(64) std::atomic<std::uint64_t> trigger{0};
    /// Every transfer up to this number has ended. Written by us (release), waited for by the stream.
    alignas(64) std::atomic<std::uint64_t> done{0};
};
static_assert(sizeof(LaneCell) == 128 && std::atomic<std::uint64_t>::is_always_lock_free);

/// The cells of one GPU. Grows by one allocation for 512 cells and keeps them: lanes come and go without the
/// driver.
class LaneMemory {
  public:
    struct Cell {
        LaneCell* words = nullptr;
        std::uint64_t trigger = 0, done = 0;  ///< where the stream finds them
    };

    /// `node`: NUMA node that the words should lie on, the GPU's.
    LaneMemory(cuda::ContextPtr context, int node);
    /// Leaves the memory allocated while a cell is out: the GPU may write to it yet.
    ~LaneMemory();
    LaneMemory(const LaneMemory&) = delete;
    LaneMemory& operator=(const LaneMemory&) = delete;

    /// Both words are 0. Throws Error{backend}.
    [[nodiscard]] Cell take();
    /// Once no stream uses it any more.
    void give_back(const Cell& cell) noexcept;

  private:
    void grow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

    const cuda::ContextPtr context_;
    const int node_;
    Mutex mutex_;
    std::vector<std::unique_ptr<cuda::PinnedMemory>> slabs_ ABSL_GUARDED_BY(mutex_);
    std::vector<Cell> free_ ABSL_GUARDED_BY(mutex_);
    std::size_t out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace railyard
