#include "stream/stream_transfers.h"

#include <sched.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "common/clock.h"
#include "common/log.h"
#include "engine/transfer.h"
#include "manager/gpus.h"

namespace railyard {
namespace {

/// How often the driver is asked whether streams still live, and lanes are taken away that nobody uses.
constexpr std::uint64_t look_interval_ns = 50'000'000;
/// What close() grants streams that are on their way past us.
constexpr std::uint64_t close_limit_ns = 2'000'000'000;

bool one_of(const std::string& value, const char* first, const char* second) {
    return value == first || value == second;
}

/// Of the memory here that the transfer touches: ours, or for transfers within the process the other side's.
std::vector<std::uint64_t> gpus_of(const Transfer& transfer) {
    std::vector<std::uint64_t> ordinals;
    const auto add = [&](const Registration& region) {
        if (region.gpu) ordinals.push_back(region.device_id);
    };
    for (const auto& region : transfer.locals)
        add(*region);
    if (!ordinals.empty()) return ordinals;
    for (const auto& region : transfer.remotes) {
        if (region->self) add(*region->self);
    }
    return ordinals;
}

}  // namespace

StreamTransfers::StreamTransfers(Engine& engine)
    : engine_(engine),
      read_waits_(one_of(engine.params().stream_wait, "read", "both")),
      write_waits_(one_of(engine.params().stream_wait, "write", "both")) {
    if (engine_.has_gpus()) engine_.set_chore(this);
}

StreamTransfers::~StreamTransfers() = default;

void StreamTransfers::attach(Transfer& transfer, std::string_view custom_param) {
    const StreamPlace place = find_stream(engine_.gpus(), custom_param, gpus_of(transfer));
    const RoleGuard control(control_);
    if (closed_) throw Error(Status::not_allowed, "transfer on a CUDA stream: the engine is being closed");
    const LanePtr lane = lane_for(place);
    const bool waits = transfer.kind == Work::Kind::read ? read_waits_ : write_waits_;
    engine_.control_start(transfer, *new HeldTransfer(lane, transfer, waits));
    reap();
}

StreamTransfers::LanePtr StreamTransfers::lane_at(std::size_t index) const {
    const MutexLock lock(lanes_mutex_);
    return index < lanes_.size() ? lanes_[index] : nullptr;
}

StreamTransfers::LanePtr StreamTransfers::lane_for(const StreamPlace& place) {
    if (!place.per_thread()) {
        const MutexLock lock(lanes_mutex_);
        const auto known = std::find_if(lanes_.begin(), lanes_.end(),
                                        [&](const LanePtr& lane) { return lane->place() == place; });
        if (known != lanes_.end()) return *known;
    }
    auto lane = std::make_shared<StreamLane>(engine_.gpus().driver(), place, memory_of(*place.gpu), armed_);
    try {
        const MutexLock lock(lanes_mutex_);
        lanes_.push_back(lane);
    } catch (...) {
        lane->close(true);
        throw;
    }
    return lane;
}

LaneMemory& StreamTransfers::memory_of(Gpu& gpu) {
    const auto known = memories_.find(gpu.ordinal());
    if (known != memories_.end()) return known->second;
    return memories_
        .emplace(std::piecewise_construct, std::forward_as_tuple(gpu.ordinal()),
                 std::forward_as_tuple(gpu.context(), gpu.node()))
        .first->second;
}

bool StreamTransfers::run() noexcept {
    if (armed_.load(std::memory_order_seq_cst) == 0) return false;
    start_triggered();
    look_after();
    return true;
}

void StreamTransfers::start_triggered() noexcept {
    StartList list;
    {
        const MutexLock lock(lanes_mutex_);
        for (const LanePtr& lane : lanes_)
            lane->collect(list);
    }
    while (list.first) {
        HeldTransfer& held = *list.first;
        list.first = held.next_start();  // the round may be over, and the transfer gone, when start() returns
        engine_.start(held.transfer());
    }
}

void StreamTransfers::look_after() noexcept {
    const std::uint64_t now = now_ns();
    if (now < next_look_.load(std::memory_order_relaxed) || !control_.try_acquire()) return;
    next_look_.store(now + look_interval_ns, std::memory_order_relaxed);
    for (std::size_t i = 0;; ++i) {
        const LanePtr lane = lane_at(i);
        if (!lane) break;
        lane->check();
    }
    reap();
    control_.release();
}

/// Nobody but the holder of the role can make a lane's users more than none again.
void StreamTransfers::reap() noexcept {
    for (std::size_t i = 0;;) {
        const LanePtr lane = lane_at(i);
        if (!lane) return;
        if (lane->users.load(std::memory_order_acquire) != 0 || !lane->finished()) {
            ++i;
            continue;
        }
        {
            const MutexLock lock(lanes_mutex_);
            lanes_.erase(lanes_.begin() + static_cast<std::ptrdiff_t>(i));
        }
        lane->close(true);
    }
}

void StreamTransfers::close() noexcept {
    if (engine_.has_gpus()) engine_.set_chore(nullptr);
    const RoleGuard control(control_);
    if (closed_) return;
    closed_ = true;
    const MutexLock lock(lanes_mutex_);
    for (const LanePtr& lane : lanes_)
        lane->open();
    const std::uint64_t limit = now_ns() + close_limit_ns;
    for (const LanePtr& lane : lanes_) {
        bool through = lane->finished();
        while (!through && now_ns() < limit) {
            sched_yield();
            through = lane->finished();
        }
        lane->close(through);
    }
    lanes_.clear();
    memories_.clear();
}

}  // namespace railyard
