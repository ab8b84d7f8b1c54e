#include "stream/lane_memory.h"

#include <new>

#include "common/log.h"
#include "cuda/pinned_memory.h"
#include "topology/node_binding.h"

namespace railyard {
namespace {

constexpr std::size_t cells_per_slab = 512;  // 64 KiB

using Slabs = std::vector<std::unique_ptr<cuda::PinnedMemory>>;

/// Never destroyed, and never used again: what is left allocated has somebody who knows of it.
void leave(Slabs slabs) {
    static auto& mutex = *new Mutex;
    static auto& left = *new std::vector<Slabs>;
    const MutexLock lock(mutex);
    left.push_back(std::move(slabs));
}

}  // namespace

LaneMemory::LaneMemory(cuda::ContextPtr context, int node) : context_(std::move(context)), node_(node) {}

LaneMemory::~LaneMemory() {
    const MutexLock lock(mutex_);
    if (out_ == 0) return;
    RAILYARD_LOG(
        warn, "stream",
        "GPU %d: %zu streams have not come to the transfers posted on them: %zu bytes of pinned memory "
        "that they will write to are left allocated",
        context_->ordinal(), out_, slabs_.size() * cells_per_slab * sizeof(LaneCell));
    leave(std::move(slabs_));
}

void LaneMemory::grow() {
    // give_back() must not fail.
    free_.reserve((slabs_.size() + 1) * cells_per_slab);
    const topology::NodeBinding near_the_gpu(node_);
    slabs_.push_back(std::make_unique<cuda::PinnedMemory>(context_, cells_per_slab * sizeof(LaneCell)));
    const cuda::PinnedMemory& slab = *slabs_.back();
    for (std::size_t i = 0; i < cells_per_slab; ++i) {
        const std::size_t offset = i * sizeof(LaneCell);
        const std::uint64_t address = slab.device_address() + offset;
        free_.push_back({new (slab.data() + offset) LaneCell, address + offsetof(LaneCell, trigger),
                         address + offsetof(LaneCell, done)});
    }
}

LaneMemory::Cell LaneMemory::take() {
    const MutexLock lock(mutex_);
    if (free_.empty()) grow();
    const Cell cell = free_.back();
    free_.pop_back();
    ++out_;
    cell.words->trigger.store(0, std::memory_order_relaxed);
    cell.words->done.store(0, std::memory_order_relaxed);
    return cell;
}

void LaneMemory::give_back(const Cell& cell) noexcept {
    const MutexLock lock(mutex_);
    free_.push_back(cell);
    --out_;
}

}  // namespace railyard
