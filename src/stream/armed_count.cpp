#include "stream/armed_count.h"

namespace railyard {

bool ArmedCount::sleep(std::chrono::milliseconds interval) noexcept {
    const MutexLock lock(mutex_);
    asleep_.store(true, std::memory_order_seq_cst);
    while (!ended_ && !any())
        changed_.wait(mutex_);
    asleep_.store(false, std::memory_order_relaxed);  // so that posts do not wake us time and again
    const auto due = std::chrono::steady_clock::now() + interval;
    while (!ended_ && std::chrono::steady_clock::now() < due)
        changed_.wait_until(mutex_, due);
    return !ended_;
}

void ArmedCount::rouse() noexcept {
    const MutexLock lock(mutex_);  // else it may be between its look and its sleep
    changed_.notify_all();
}

void ArmedCount::end() noexcept {
    const MutexLock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
}

}  // namespace railyard
