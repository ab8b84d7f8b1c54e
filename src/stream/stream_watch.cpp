#include "stream/stream_watch.h"

#include <pthread.h>

#include <chrono>
#include <system_error>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "common/signals_blocked.h"

namespace railyard {
namespace {

/// How often the driver is asked whether streams still live, and lanes are taken away that nobody uses.
constexpr std::chrono::milliseconds look_interval{50};
/// What lanes are granted to close: twice what they grant their streams.
constexpr std::uint64_t thread_limit_ns = 4'000'000'000;

void watch(Lanes& lanes) noexcept {
    while (lanes.armed().sleep(look_interval))
        lanes.look();
    lanes.close();
}

}  // namespace

StreamWatch::StreamWatch(std::shared_ptr<Lanes> lanes)
    : lanes_(std::move(lanes)), ended_(std::make_shared<std::atomic<bool>>(false)) {}

StreamWatch::~StreamWatch() = default;

void StreamWatch::start() noexcept {
    if (runs()) return;
    const MutexLock lock(mutex_);
    if (closed_ || thread_.joinable()) return;
    try {
        const SignalsBlocked with_it;
        thread_ = std::thread([lanes = lanes_, ended = ended_] {
            watch(*lanes);
            ended->store(true, std::memory_order_release);
        });
        pthread_setname_np(thread_.native_handle(), "railyard-stream");
        runs_.store(true, std::memory_order_relaxed);
    } catch (const std::system_error& error) {
        if (!std::exchange(said_, true)) {
            RAILYARD_LOG(
                warn, "stream",
                "no thread to watch CUDA streams: %s; whoever makes progress asks the driver about them, "
                "which hangs where that waits for a stream, and the stream for a transfer",
                error.what());
        }
    } catch (const std::exception&) {
        return;  // no memory: the next one tries again
    }
}

void StreamWatch::look_now_and_then() noexcept {
    const std::uint64_t now = now_ns();
    if (now < next_look_.load(std::memory_order_relaxed)) return;
    next_look_.store(now + std::chrono::nanoseconds(look_interval).count(), std::memory_order_relaxed);
    lanes_->look();
}

void StreamWatch::close() noexcept {
    const MutexLock lock(mutex_);
    if (std::exchange(closed_, true)) return;
    if (!thread_.joinable()) return lanes_->close();
    lanes_->armed().end();
    const std::uint64_t limit = now_ns() + thread_limit_ns;
    while (!ended_->load(std::memory_order_acquire) && now_ns() < limit)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (ended_->load(std::memory_order_acquire)) return thread_.join();
    thread_.detach();
    RAILYARD_LOG(
        warn, "stream",
        "a call of the driver has not come back for %llu s: the thread that watches CUDA streams, and "
        "the pinned memory that they will write to, are left to it",
        static_cast<unsigned long long>(thread_limit_ns / 1'000'000'000));
}

}  // namespace railyard
