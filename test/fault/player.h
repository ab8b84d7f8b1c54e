// Plays a schedule: its threads, its steps, and the end that everything has to come to.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "world.h"

namespace railyard::fault {

struct PlayOptions {
    std::chrono::milliseconds limit{20'000};  ///< of every wait for a transfer or a notification
    std::string log_level = "off";            ///< of the engines
    bool trace = false;                       ///< each step and each end on standard output
};

/// Plays it once. Throws Failure for the first thing that is not as it should be; at a hang, what hangs hangs
/// still when `hung` is called. Threads of its own, for schedules with several.
class Player {
  public:
    Player(const Schedule& schedule, const PlayOptions& options, Counts& counts,
           std::function<void(const Failure&)> hung);
    ~Player();
    void play();

  private:
    struct Handle {
        Transfer* transfer = nullptr;
        bool in_flight = false;
        std::chrono::steady_clock::time_point posted{};  ///< before the last post
        [[nodiscard]] std::chrono::milliseconds taken() const;
    };

    void run_thread(int thread);
    void meet(std::unique_lock<std::mutex>& lock);
    void do_step(const Step& step, int thread);
    void do_for_all(const Step& step);
    void post(int id, int thread);
    void wait(int id, int thread);
    void release(int id);
    void pass(int thread);
    void poll(int id, Handle& handle);
    void finish();
    [[nodiscard]] std::chrono::milliseconds limit_of(const TransferSpec& spec) const;
    /// Until `over`; after the limit a Failure, in the words of `what`.
    void until(int thread, std::chrono::milliseconds limit, const std::function<bool()>& over,
               const std::function<Failure()>& what);
    void trace(const std::string& text);
    void give_up(const Failure& failure);
    [[nodiscard]] const TransferSpec* spec_of(int id) const;
    [[nodiscard]] bool on(int thread, int id) const {
        return thread == everybody || id % schedule_.threads == thread;
    }

    const Schedule& schedule_;
    const PlayOptions options_;
    Counts& counts_;
    const std::function<void(const Failure&)> hung_;
    Oracle oracle_;
    std::optional<World> world_;
    std::map<int, Handle> handles_;  ///< all of them from the start; each is one thread's

    std::mutex mutex_;
    std::condition_variable met_;
    int waiting_ = 0;
    int meetings_ = 0;
    std::optional<Failure> failure_;
    std::atomic<bool> failed_{false};
};

}  // namespace railyard::fault
