#include "stream/lanes.h"

#include <sched.h>

#include <algorithm>
#include <tuple>

#include "common/clock.h"
#include "cuda/driver.h"
#include "manager/gpus.h"

namespace railyard {
namespace {

/// What close() grants streams that are on their way past us.
constexpr std::uint64_t close_limit_ns = 2'000'000'000;

}  // namespace

Lanes::Lanes(const cuda::Driver& driver) : driver_(std::make_unique<const cuda::Driver>(driver)) {}

Lanes::~Lanes() = default;

std::shared_ptr<StreamLane> Lanes::at(std::size_t index) const {
    const MutexLock lock(mutex_);
    return index < lanes_.size() ? lanes_[index] : nullptr;
}

std::shared_ptr<StreamLane> Lanes::of(const StreamPlace& place) {
    if (!place.per_thread()) {
        const MutexLock lock(mutex_);
        const auto known = std::find_if(lanes_.begin(), lanes_.end(),
                                        [&](const LanePtr& lane) { return lane->place() == place; });
        if (known != lanes_.end()) return *known;
    }
    auto lane = std::make_shared<StreamLane>(*driver_, place, memory_of(*place.gpu), armed_);
    try {
        const MutexLock lock(mutex_);
        if (opened_)
            throw Error(Status::not_allowed, "transfer on a CUDA stream: the engine is being closed");
        lanes_.push_back(lane);
    } catch (...) {
        lane->close(true);
        throw;
    }
    return lane;
}

LaneMemory& Lanes::memory_of(Gpu& gpu) {
    const auto known = memories_.find(gpu.ordinal());
    if (known != memories_.end()) return known->second;
    return memories_
        .emplace(std::piecewise_construct, std::forward_as_tuple(gpu.ordinal()),
                 std::forward_as_tuple(gpu.context(), gpu.node()))
        .first->second;
}

void Lanes::collect(StartList& list) noexcept {
    const MutexLock lock(mutex_);
    for (const LanePtr& lane : lanes_)
        lane->collect(list);
}

void Lanes::look() noexcept {
    for (std::size_t i = 0; const LanePtr lane = at(i); ++i)
        lane->check();
    if (!control.try_acquire()) return;
    reap();
    control.release();
}

/// Nobody but the holder of the role can make a lane's users more than none again.
void Lanes::reap() noexcept {
    for (std::size_t i = 0; const LanePtr lane = at(i);) {
        if (lane->users.load(std::memory_order_acquire) != 0 || !lane->finished()) {
            ++i;
            continue;
        }
        {
            const MutexLock lock(mutex_);
            lanes_.erase(lanes_.begin() + static_cast<std::ptrdiff_t>(i));
        }
        lane->close(true);
    }
}

void Lanes::open() noexcept {
    const MutexLock lock(mutex_);
    opened_ = true;
    for (const LanePtr& lane : lanes_)
        lane->open();
}

void Lanes::close() noexcept {
    const RoleGuard guard(control);
    std::vector<LanePtr> lanes;
    {
        const MutexLock lock(mutex_);
        lanes.swap(lanes_);
    }
    const std::uint64_t limit = now_ns() + close_limit_ns;
    for (const LanePtr& lane : lanes) {
        bool through = lane->finished();
        while (!through && now_ns() < limit) {
            sched_yield();
            through = lane->finished();
        }
        lane->close(through);
    }
    memories_.clear();
}

}  // namespace railyard
