// The background thread that keeps rails moving when no caller does.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "rail/rail.h"

namespace railyard {

/// One more taker of the rails' roles. While callers poll at a high rate, or are long at it (over sockets the
/// bytes of a large block are copied in one pass), it stays out of their way; else it
/// spins briefly while there is work, and blocks on the rails' file descriptors when there is none (or sleeps
/// in growing steps where a rail has no descriptor).
class ProgressThread {
  public:
    /// What to do after each pass besides; must not throw. True: there is something to look after that no
    /// rail tells of, so look again at once.
    using Chore = std::function<bool()>;
    /// Of several threads of one engine: a bit each, so that one load tells whether anybody is to be woken.
    struct Company {
        std::atomic<std::uint64_t> asleep{0};   ///< blocked: wake() is for them
        std::atomic<std::uint64_t> resting{0};  ///< leave the rails to callers until the first takes over
    };
    struct Place {
        Company* company;  ///< nullptr: there is no other
        unsigned index;    ///< below 64
        /// There are more than callers are on: it takes none from them, and looks often whether they still
        /// drive.
        bool cpus_to_spare;
    };
    /// How many passes over the rails callers have begun; must not throw.
    using CallerPasses = std::function<std::uint64_t()>;
    /// `pause`: what to sleep where there is nothing to block on; 0: growing steps up to 40 ms.
    /// `wake_at`: when the chore
    /// wants to be called at the latest (ns); it is looked at before each sleep.
    ProgressThread(
        std::vector<Rail*> rails, std::chrono::microseconds pause, CallerPasses caller_passes,
        Chore chore = [] { return false; }, const std::atomic<std::uint64_t>* wake_at = nullptr,
        Place place = {});
    /// As stop().
    ~ProgressThread();
    ProgressThread(const ProgressThread&) = delete;
    ProgressThread& operator=(const ProgressThread&) = delete;

    /// Ends and joins the thread; the object stays, so that the thread's last chore may still wake it.
    void stop() noexcept;
    [[nodiscard]] pthread_t handle() noexcept { return thread_.native_handle(); }
    /// Wakes the thread if it is blocked. Any thread; costs one load when it is awake.
    void wake() noexcept {
        // Pairs with the store before the thread's last look at the rails: one of the two sees the other.
        if (company_.asleep.load(std::memory_order_seq_cst) & bit_) rouse();
    }
    /// The same where one of its rails has something to do, or somebody who may be leaving it there.
    void wake_for_work() noexcept {
        if ((company_.asleep.load(std::memory_order_seq_cst) & bit_) && has_work()) rouse();
    }
    /// Ends its rest: callers do not drive the rails any more.
    void take_over() noexcept { signal(); }

  private:
    [[nodiscard]] bool has_work() const noexcept;
    void rouse() noexcept;
    void run() noexcept;
    bool pass() noexcept;
    bool callers_drive() noexcept;
    void block() noexcept;
    bool nap(std::uint64_t nanoseconds) noexcept;
    void leave_to_callers() noexcept;
    void look_afresh() noexcept;
    void get_up() noexcept { company_.asleep.fetch_and(~bit_, std::memory_order_seq_cst); }
    std::uint64_t next_pause_ns() noexcept;
    [[nodiscard]] std::uint64_t until_wake_ns() const noexcept;
    void signal() noexcept;
    void take_signal() noexcept;
    void open_descriptors();
    bool ready_to_block() noexcept;

    std::vector<Rail*> rails_;
    std::uint64_t pause_ns_;
    const CallerPasses caller_passes_;
    const Chore chore_;
    const std::atomic<std::uint64_t>* const wake_at_;
    std::uint64_t seen_passes_ = 0;
    bool seen_at_work_ = false;
    std::uint64_t last_work_ = 0;     // ns
    std::uint64_t last_look_ = 0;     // ns; at whether callers drive
    std::uint64_t last_pass_ = 0;     // ns; when a look saw that they had begun one
    std::uint64_t driven_since_ = 0;  // ns; the last look, where they do not
    std::uint64_t idle_pause_ns_ = 0;
    bool all_waitable_ = true;
    int wake_fd_ = -1;
    int epoll_fd_ = -1;
    std::atomic<bool> stop_{false};
    Company alone_;
    Company& company_;
    const std::uint64_t bit_;
    const std::uint64_t longest_rest_ns_;
    std::thread thread_;  // last: starts when all else is there
};

}  // namespace railyard
