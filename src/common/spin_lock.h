// A lock for a few instructions, and how to wait for what others hold so briefly.
#pragma once

#include <absl/base/thread_annotations.h>
#include <sched.h>
#include <time.h>

#include <atomic>

namespace railyard {

/// Between two attempts, the first of which is 0: lets others run, and later sleeps, so that a holder of
/// lower priority gets its turn.
inline void wait_a_moment(int attempt) noexcept {
    if (attempt < 64) {
        sched_yield();
    } else {
        const timespec pause{0, 20'000};
        nanosleep(&pause, nullptr);
    }
}

/// Guards sections of some dozens of instructions that call nobody: one locked instruction, where a mutex has
/// two and two calls.
class ABSL_LOCKABLE SpinLock {
  public:
    SpinLock() = default;
    SpinLock(const SpinLock&) = delete;
    SpinLock& operator=(const SpinLock&) = delete;

    void lock() noexcept ABSL_EXCLUSIVE_LOCK_FUNCTION() {
        // Pairs with the store in unlock().
        for (int attempt = 0; held_.exchange(true, std::memory_order_acquire); ++attempt)
            wait_a_moment(attempt);
    }
    void unlock() noexcept ABSL_UNLOCK_FUNCTION() { held_.store(false, std::memory_order_release); }

  private:
    std::atomic<bool> held_{false};
};

/// Holds a SpinLock for a scope.
class ABSL_SCOPED_LOCKABLE SpinGuard {
  public:
    explicit SpinGuard(SpinLock& lock) noexcept ABSL_EXCLUSIVE_LOCK_FUNCTION(lock) : lock_(lock) {
        lock_.lock();
    }
    ~SpinGuard() ABSL_UNLOCK_FUNCTION() { lock_.unlock(); }
    SpinGuard(const SpinGuard&) = delete;
    SpinGuard& operator=(const SpinGuard&) = delete;

  private:
    SpinLock& lock_;
};

}  // namespace railyard
