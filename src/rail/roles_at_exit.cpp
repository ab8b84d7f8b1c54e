#include "rail/roles_at_exit.h"

#include <absl/base/thread_annotations.h>

#include <atomic>

#include "common/clock.h"
#include "common/fork_watch.h"
#include "common/mutex.h"

namespace railyard {

struct RolesAtExit {
    static RolesAtExit& get() { return of_process.get(); }
    /// For all of them: a role may be the exiting thread's own, from further up (exit() in a signal handler).
    static constexpr std::uint64_t longest_wait_ns = 500'000'000;

    void add(RoleAtExit& one) noexcept {
        const MutexLock lock(mutex);
        one.next_ = first;
        if (first) first->previous_ = &one;
        first = &one;
    }
    void remove(RoleAtExit& one) noexcept {
        const MutexLock lock(mutex);
        (one.previous_ ? one.previous_->next_ : first) = one.next_;
        if (one.next_) one.next_->previous_ = one.previous_;
    }
    void keep_all() noexcept ABSL_NO_THREAD_SAFETY_ANALYSIS {
        const std::uint64_t end = now_ns() + longest_wait_ns;
        auto goes_on = [&, attempt = 0]() mutable {
            wait_a_moment(attempt++);
            return now_ns() < end;
        };
        while (!mutex.try_lock()) {
            if (!goes_on()) return;
        }
        while (!all_kept() && goes_on()) {
        }
        mutex.unlock();
    }
    /// One that cannot be had takes nothing from the others.
    bool all_kept() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
        bool all = true;
        for (RoleAtExit* one = first; one; one = one->next_) {
            one->kept_ = one->kept_ || one->role_.try_keep();
            all = all && one->kept_;
        }
        return all;
    }

    Mutex mutex;
    RoleAtExit* first ABSL_GUARDED_BY(mutex) = nullptr;

    static inline constinit OfThisProcess<RolesAtExit> of_process;
    /// There has been one in this process, or before a fork.
    static inline constinit std::atomic<bool> any{false};
};

[[gnu::destructor]] void keep_roles_at_exit() noexcept {
    if (!RolesAtExit::any.load()) return;
    try {
        RolesAtExit::get().keep_all();
    } catch (const std::bad_alloc&) {
        return;  // a child's first, which has none
    }
}

RoleAtExit::RoleAtExit(ThreadRole& role) : role_(role), generation_(fork_generation()) {
    RolesAtExit::get().add(*this);
    RolesAtExit::any.store(true);
}

/// In a child it is not in the list.
RoleAtExit::~RoleAtExit() {
    if (generation_ == fork_generation()) RolesAtExit::get().remove(*this);
}

}  // namespace railyard
