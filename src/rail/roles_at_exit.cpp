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
    void take_all() noexcept ABSL_NO_THREAD_SAFETY_ANALYSIS {
        const std::uint64_t end = now_ns() + longest_wait_ns;
        int attempt = 0;
        while (!mutex.try_lock()) {
            if (now_ns() > end) return;
            wait_a_moment(attempt++);
        }
        for (const RoleAtExit* one = first; one; one = one->next_) {
            for (attempt = 0; !one->role_.try_acquire(); ++attempt) {
                if (now_ns() > end) break;
                wait_a_moment(attempt);
            }
        }
        mutex.unlock();
    }

    Mutex mutex;
    RoleAtExit* first ABSL_GUARDED_BY(mutex) = nullptr;

    static inline constinit OfThisProcess<RolesAtExit> of_process;
    /// Some process before a fork counts, too: of_process.get() would allocate.
    static inline constinit std::atomic<bool> any{false};
};

namespace {

[[gnu::destructor]] void take_roles_at_exit() noexcept {
    if (!RolesAtExit::any.load()) return;
    try {
        RolesAtExit::of_process.get().take_all();
    } catch (const std::bad_alloc&) {
        return;  // a child's first, which has none
    }
}

}  // namespace

RoleAtExit::RoleAtExit(ThreadRole& role) : role_(role), generation_(fork_generation()) {
    RolesAtExit::of_process.get().add(*this);
    RolesAtExit::any.store(true);
}

/// In a child it is not in the list.
RoleAtExit::~RoleAtExit() {
    if (generation_ == fork_generation()) RolesAtExit::of_process.get().remove(*this);
}

}  // namespace railyard
