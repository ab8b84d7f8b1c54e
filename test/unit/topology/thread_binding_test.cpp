#include "topology/thread_binding.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace railyard::topology {
namespace {

std::vector<int> cpus_of(pthread_t thread) {
    cpu_set_t set;
    EXPECT_EQ(pthread_getaffinity_np(thread, sizeof set, &set), 0);
    std::vector<int> cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
    }
    return cpus;
}

/// A thread that is there until the test is over.
class ThreadBinding : public testing::Test {
  protected:
    ThreadBinding() : allowed_(cpus_of(pthread_self())) {
        thread_ = std::thread([this] {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] { return over_; });
        });
    }
    ~ThreadBinding() override {
        {
            const std::lock_guard lock(mutex_);
            over_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }
    [[nodiscard]] pthread_t thread() { return thread_.native_handle(); }

    const std::vector<int> allowed_;

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool over_ = false;
    std::thread thread_;
};

TEST_F(ThreadBinding, KeepsTheThreadOnTheCpusThatThereAre) {
    const int last = allowed_.back();
    const std::vector<int> node{last, CPU_SETSIZE - 1, CPU_SETSIZE + 3, -1};
    EXPECT_EQ(bind_thread(thread(), node, 1), "CPUs " + std::to_string(last));
    EXPECT_EQ(cpus_of(thread()), std::vector<int>{last});
    EXPECT_EQ(cpus_of(pthread_self()), allowed_) << "the caller's own are as they were";
}

TEST_F(ThreadBinding, LeavesTheThreadAloneWhereThereAreTooFew) {
    EXPECT_EQ(bind_thread(thread(), std::vector<int>{allowed_.back()}),
              "any CPU (this process may use 1 of the node's)");
    EXPECT_EQ(bind_thread(thread(), std::vector<int>{CPU_SETSIZE - 1}),
              "any CPU (this process may use none of the node's)");
    EXPECT_EQ(bind_thread(thread(), {}), "any CPU (the topology names none)");
    EXPECT_EQ(cpus_of(thread()), allowed_);
}

TEST_F(ThreadBinding, SaysRangesForTheLog) {
    if (allowed_.size() < 2 || allowed_[1] != allowed_[0] + 1) GTEST_SKIP() << "needs two CPUs side by side";
    EXPECT_EQ(bind_thread(thread(), std::vector<int>{allowed_[0], allowed_[1]}),
              "CPUs " + std::to_string(allowed_[0]) + "-" + std::to_string(allowed_[1]));
}

TEST_F(ThreadBinding, CountsWhatTheCallerMayUse) {
    EXPECT_EQ(allowed_cpus(), allowed_.size());
    std::size_t bound = 0;
    std::thread([&] {
        bind_thread(pthread_self(), std::vector<int>{allowed_.back()}, 1);
        bound = allowed_cpus();
    }).join();
    EXPECT_EQ(bound, 1u);
}

}  // namespace
}  // namespace railyard::topology
