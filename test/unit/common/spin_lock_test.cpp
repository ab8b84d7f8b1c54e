#include "common/spin_lock.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace railyard {
namespace {

TEST(SpinLock, OneAtATime) {
    constexpr int threads = 4, rounds = 20'000;
    SpinLock lock;
    long first = 0, second = 0;  // always the same under the lock
    bool torn = false;
    const auto work = [&] {
        for (int i = 0; i < rounds; ++i) {
            const SpinGuard guard(lock);
            torn = torn || first != second;
            ++first;
            ++second;
        }
    };
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; ++i)
        workers.emplace_back(work);
    for (std::thread& worker : workers)
        worker.join();
    EXPECT_FALSE(torn);
    EXPECT_EQ(first, threads * rounds);
}

/// A holder that does not run for a while is waited for, asleep: it may need the core.
TEST(SpinLock, WhoWaitsLongSleeps) {
    SpinLock lock;
    lock.lock();
    std::thread waiter([&] { const SpinGuard guard(lock); });
    timespec before{}, after{};
    clockid_t clock{};
    pthread_getcpuclockid(waiter.native_handle(), &clock);
    const timespec pause{0, 20'000'000};
    nanosleep(&pause, nullptr);  // so that it waits; nothing depends on it
    clock_gettime(clock, &before);
    const timespec hold{0, 200'000'000};
    nanosleep(&hold, nullptr);
    clock_gettime(clock, &after);
    lock.unlock();
    waiter.join();
    const double used = static_cast<double>(after.tv_sec - before.tv_sec) +
                        static_cast<double>(after.tv_nsec - before.tv_nsec) * 1e-9;
    EXPECT_LT(used, 0.15) << "of 0.2 s";
}

}  // namespace
}  // namespace railyard
