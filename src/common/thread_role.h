// A role: the exclusive right to work on some state, taken by whichever thread comes first.
#pragma once

#include <absl/base/thread_annotations.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "common/process_barrier.h"
#include "common/thread_tag.h"

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

/// Guards single-owner state (an endpoint and its completion queue, say) without blocking the hot path:
/// callers try_acquire and hand their work over when somebody else holds the role. All operations are
/// sequentially consistent, so that "push work, then try the role" against "release the role, then look for
/// work" cannot both miss (Dekker's pattern; see Rail::submit).
///
/// A thread that comes again and again while no other does is given a lease: it then takes and releases the
/// role without a locked instruction. Who else wants it ends the lease by process_barrier().
class ABSL_LOCKABLE ThreadRole {
  public:
    /// Releases in a row, by one thread, that a lease takes at first. Each lease that was ended before it was
    /// worth its end doubles that, up to the second.
    static constexpr std::uint32_t releases_for_lease = 512, most_releases_for_lease = 1 << 16;
    static constexpr std::uint32_t worthwhile_lease = 4096;  ///< times that it is used
    /// Threads that may ever have one.
    static constexpr std::size_t most_lessees = 8;

    ThreadRole() = default;
    ThreadRole(const ThreadRole&) = delete;
    ThreadRole& operator=(const ThreadRole&) = delete;

    [[nodiscard]] bool try_acquire() noexcept ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
        Seat* const lessee = lessee_.load(std::memory_order_relaxed);
        bool got = false;
        if (lessee && lessee->thread.load(std::memory_order_relaxed) == this_thread_tag()) {
            got = enter(*lessee);
        } else if (!held_.load(std::memory_order_seq_cst) &&
                   !held_.exchange(true, std::memory_order_seq_cst)) {
            got = true;
        } else {
            got = lessee_.load(std::memory_order_seq_cst) && recall();
        }
        if (got) set_owner(std::this_thread::get_id());
        return got;
    }

    /// Waits for the role: for the control path. Holders keep it for a bounded batch of work only.
    void acquire() noexcept ABSL_EXCLUSIVE_LOCK_FUNCTION() {
        for (int attempt = 0; !try_acquire(); ++attempt) {
            if (keeper_.load(std::memory_order_relaxed) == this_thread_tag()) [[unlikely]]
                return keeper_.store(nobody, std::memory_order_relaxed);
            wait_a_moment(attempt);
        }
    }

    /// Once a thread has it, that keeps it: nobody else gets it from then on, unless the thread itself calls
    /// acquire() and release() once more.
    [[nodiscard]] bool try_keep() noexcept ABSL_NO_THREAD_SAFETY_ANALYSIS {
        if (!try_acquire()) return false;
        keeper_.store(this_thread_tag(), std::memory_order_relaxed);
        return true;
    }

    void release() noexcept ABSL_UNLOCK_FUNCTION() {
        set_owner({});
        if (leave()) return;
        if (last_ != this_thread_tag()) last_ = nobody;
        held_.store(false, std::memory_order_seq_cst);
    }

    /// The same, by a thread that will come again soon if all goes on as it does.
    void release_or_lease() noexcept ABSL_UNLOCK_FUNCTION() {
        set_owner({});
        if (leave() || grant(this_thread_tag())) return;
        held_.store(false, std::memory_order_seq_cst);
    }

    /// Somebody has it, or had it a moment ago. Any thread.
    [[nodiscard]] bool held() const noexcept {
        const Seat* const lessee = lessee_.load(std::memory_order_relaxed);
        return held_.load(std::memory_order_relaxed) &&
               (!lessee || lessee->inside.load(std::memory_order_relaxed));
    }
    /// Leases that were taken away, ever. Any thread.
    [[nodiscard]] std::uint64_t leases_ended() const noexcept {
        return leases_ended_.load(std::memory_order_relaxed);
    }
    /// Some thread has a lease. Any thread.
    [[nodiscard]] bool leased() const noexcept { return lessee_.load(std::memory_order_relaxed) != nullptr; }

    /// Debug builds only: the calling thread must hold the role.
    void assert_held() const noexcept ABSL_ASSERT_EXCLUSIVE_LOCK() {
#ifndef NDEBUG
        assert(owner_.load(std::memory_order_relaxed) == std::this_thread::get_id());
#endif
    }

  private:
    using Tag = ThreadTag;
    static constexpr Tag nobody = no_thread;

    void set_owner([[maybe_unused]] std::thread::id id) noexcept {
#ifndef NDEBUG
        owner_.store(id, std::memory_order_relaxed);
#endif
    }

    /// Of one thread for ever: one that has found itself the lessee and comes in late, when it is that no
    /// more, touches nobody else's.
    struct Seat {
        std::atomic<Tag> thread{nobody};
        std::atomic<bool> inside{false};  ///< written by that thread
        std::atomic<bool> ending{false};  ///< its lease has not been ended: who sets it to false has the role
    };

    // The lease. While there is one, held_ and its ending are true. Whoever ends it takes lessee_ away, and
    // then the lessee sees that or is seen inside. Either of them may come to have the role by that: the one
    // that turns its ending to false. Nobody is left without: who ends the lease leaves it to a lessee that
    // was seen inside, who finds lessee_ gone on its way out (or, if it had just come in, at the door).

    /// The lessee's, or who was it a moment ago. Pairs with recall().
    bool enter(Seat& mine) noexcept {
        if (mine.inside.load(std::memory_order_relaxed)) return false;  // from further up
        mine.inside.store(true, std::memory_order_relaxed);
        light_barrier();
        if (lessee_.load(std::memory_order_acquire) == &mine) [[likely]] {
            ++uses_;
            return true;
        }
        mine.inside.store(false, std::memory_order_release);
        return end_lease(mine);
    }

    /// The holder's; true: it has the role no more. Pairs with recall().
    bool leave() noexcept {
        Seat* const mine = entered_;
        if (!mine) return false;
        mine->inside.store(false, std::memory_order_release);
        light_barrier();
        return lessee_.load(std::memory_order_acquire) == mine || !end_lease(*mine);
    }

    /// Anybody else's; true: the caller has the role.
    bool recall() noexcept {
        // What is asked below must be of the lease that is taken away here, not of one given since.
        recalls_.fetch_add(1, std::memory_order_seq_cst);
        Seat* lessee = lessee_.load(std::memory_order_seq_cst);
        bool got = false;
        if (lessee && lessee_.compare_exchange_strong(lessee, nullptr, std::memory_order_seq_cst)) {
            process_barrier();
            got = !lessee->inside.load(std::memory_order_acquire) && end_lease(*lessee);
        }
        recalls_.fetch_sub(1, std::memory_order_release);
        return got;
    }

    bool end_lease(Seat& lessee) noexcept {
        if (!lessee.ending.exchange(false, std::memory_order_acq_rel)) return false;
        leases_ended_.store(leases_ended_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        entered_ = nullptr;
        needed_ =
            uses_ < worthwhile_lease ? std::min(2 * needed_, most_releases_for_lease) : releases_for_lease;
        return true;
    }

    /// The holder's, who has no lease.
    bool grant(Tag me) noexcept {
        if (last_ != me) {
            last_ = me;
            streak_ = 0;
        }
        if (++streak_ < needed_) return false;
        streak_ = 0;
        if (recalls_.load(std::memory_order_acquire) != 0 || !has_process_barrier()) return false;
        const auto seat = std::find_if(seats_.begin(), seats_.end(), [&](const Seat& known) {
            const Tag thread = known.thread.load(std::memory_order_relaxed);
            return thread == me || thread == nobody;
        });
        if (seat == seats_.end()) return false;
        seat->thread.store(me, std::memory_order_relaxed);
        uses_ = 0;
        entered_ = &*seat;
        seat->ending.store(true, std::memory_order_relaxed);
        lessee_.store(entered_, std::memory_order_seq_cst);
        return true;
    }

    std::atomic<bool> held_{false};
    std::atomic<std::uint32_t> recalls_{0};  ///< under way
    std::atomic<Seat*> lessee_{nullptr};
    std::array<Seat, most_lessees> seats_;
    std::atomic<Tag> keeper_{nobody};
    std::atomic<std::uint64_t> leases_ended_{0};  ///< the holder's to write
    // The holder's.
    Seat* entered_ = nullptr;  ///< the lessee's, while there is a lease
    Tag last_ = nobody;        ///< who has released it `streak_` times in a row
    std::uint32_t streak_ = 0;
    std::uint32_t needed_ = releases_for_lease;
    std::uint32_t uses_ = 0;  ///< of this lease
#ifndef NDEBUG
    std::atomic<std::thread::id> owner_{};
#endif
};

/// Holds a role for a scope: callers that come again and again.
class ABSL_SCOPED_LOCKABLE LeaseGuard {
  public:
    explicit LeaseGuard(ThreadRole& role) noexcept ABSL_EXCLUSIVE_LOCK_FUNCTION(role) : role_(role) {
        role_.acquire();
    }
    ~LeaseGuard() ABSL_UNLOCK_FUNCTION() { role_.release_or_lease(); }
    LeaseGuard(const LeaseGuard&) = delete;
    LeaseGuard& operator=(const LeaseGuard&) = delete;

  private:
    ThreadRole& role_;
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
