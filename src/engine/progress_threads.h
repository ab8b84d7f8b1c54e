// The progress threads of an engine: one, or several that share the rails out.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/progress_thread.h"

namespace railyard {

/// None before start(). The first thread does what there is once for an engine.
class ProgressThreads {
  public:
    /// What one thread serves.
    struct Part {
        std::vector<Rail*> rails;
        bool bound = false;      ///< to `cpus`, as far as they can be had
        std::vector<int> cpus;   ///< the operating system's numbers
        std::string place = {};  ///< for the log: "NUMA node 1"
    };
    /// As ProgressThread has them.
    struct Manner {
        std::chrono::microseconds pause;
        ProgressThread::CallerPasses caller_passes;
        std::string agent;  ///< for the log
    };
    /// What is to be done after each pass besides. None of them may throw.
    struct Duties {
        std::function<void()> watch;  ///< the first thread's
        std::function<bool()>
            chores;  ///< every thread's, at once; true: more to come, which the first looks at
        const std::atomic<std::uint64_t>* watch_at = nullptr;  ///< the first thread is called then (ns)
    };

    ProgressThreads() = default;
    /// As stop(): they wake each other until the last has ended.
    ~ProgressThreads() { stop(); }
    ProgressThreads(const ProgressThreads&) = delete;
    ProgressThreads& operator=(const ProgressThreads&) = delete;

    /// Once, with one part or more; throws Error{backend}, with no thread left.
    void start(std::vector<Part> parts, const Manner& manner, const Duties& duties);
    /// Ends and joins them all; the others stay as they are, so that whoever comes late may still wake them.
    void stop() noexcept;
    /// Wakes the first if it is blocked, and the others that have work. Any thread; costs one load
    /// where all are awake.
    void wake() noexcept {
        if (company_.asleep.load(std::memory_order_seq_cst) != 0) [[unlikely]]
            wake_sleepers();
    }
    [[nodiscard]] std::size_t size() const noexcept { return started_.load(std::memory_order_acquire); }

  private:
    void wake_sleepers() noexcept;
    void end_rest() noexcept;
    ProgressThread::Chore chore_of(std::size_t index, const Duties& duties);

    ProgressThread::Company company_;
    std::vector<std::unique_ptr<ProgressThread>> threads_;
    std::atomic<std::uint32_t> wakes_{0};  ///< roughly
    /// Their number once all are there; pairs with wake(), which their own chores call, too.
    std::atomic<std::size_t> started_{0};
};

}  // namespace railyard
