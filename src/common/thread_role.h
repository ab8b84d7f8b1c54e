// A role: the exclusive right to work on some state, taken by whichever thread comes first.
#pragma once

#include <absl/base/thread_annotations.h>

#include <atomic>
#include <cassert>
#include <thread>

#include "common/spin_lock.h"

namespace railyard {

/// Guards single-owner state (an endpoint and its completion queue, say) without blocking the hot path:
/// callers try_acquire and hand their work over when somebody else holds the role. All operations are
/// sequentially consistent, so that "push work, then try the role" against "release the role, then look for
/// work" cannot both miss (Dekker's pattern; see Rail::submit).
class ABSL_LOCKABLE ThreadRole {
  public:
    ThreadRole() = default;
    ThreadRole(const ThreadRole&) = delete;
    ThreadRole& operator=(const ThreadRole&) = delete;

    [[nodiscard]] bool try_acquire() noexcept ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
        if (held_.load(std::memory_order_relaxed) || held_.exchange(true, std::memory_order_seq_cst))
            return false;
        set_owner(std::this_thread::get_id());
        return true;
    }

    /// Waits for the role: for the control path. Holders keep it for a bounded batch of work only.
    void acquire() noexcept ABSL_EXCLUSIVE_LOCK_FUNCTION() {
        for (int attempt = 0; !try_acquire(); ++attempt)
            wait_a_moment(attempt);
    }

    void release() noexcept ABSL_UNLOCK_FUNCTION() {
        set_owner({});
        held_.store(false, std::memory_order_seq_cst);
    }

    /// Somebody has it, or had it a moment ago. Any thread.
    [[nodiscard]] bool held() const noexcept { return held_.load(std::memory_order_relaxed); }

    /// Debug builds only: the calling thread must hold the role.
    void assert_held() const noexcept ABSL_ASSERT_EXCLUSIVE_LOCK() {
#ifndef NDEBUG
        assert(owner_.load(std::memory_order_relaxed) == std::this_thread::get_id());
#endif
    }

  private:
    void set_owner([[maybe_unused]] std::thread::id id) noexcept {
#ifndef NDEBUG
        owner_.store(id, std::memory_order_relaxed);
#endif
    }

    std::atomic<bool> held_{false};
#ifndef NDEBUG
    std::atomic<std::thread::id> owner_{};
#endif
};

/// Holds a role for a scope on the control path.
class ABSL_SCOPED_LOCKABLE RoleGuard {
  public:
    explicit RoleGuard(ThreadRole& role) noexcept ABSL_EXCLUSIVE_LOCK_FUNCTION(role) : role_(role) {
        role_.acquire();
    }
    ~RoleGuard() ABSL_UNLOCK_FUNCTION() { role_.release(); }
    RoleGuard(const RoleGuard&) = delete;
    RoleGuard& operator=(const RoleGuard&) = delete;

  private:
    ThreadRole& role_;
};

}  // namespace railyard
