#include "common/thread_role.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "../role_elsewhere.h"

namespace railyard {
namespace {

TEST(ThreadRole, OneHolderAtATime) {
    ThreadRole role;
    ASSERT_TRUE(role.try_acquire());
    std::thread([&] {
        if (role.try_acquire()) {
            ADD_FAILURE() << "two holders";
            role.release();
        }
    }).join();
    role.release();
    const RoleGuard guard(role);
}

/// Until the calling thread has a lease.
void come_again(ThreadRole& role) {
    for (std::uint32_t i = 0; i < 2 * ThreadRole::most_releases_for_lease && !role.leased(); ++i) {
        ASSERT_TRUE(role.try_acquire());
        role.release_or_lease();
    }
}

class RoleLease : public testing::Test {
  protected:
    void SetUp() override {
        if (!has_process_barrier()) GTEST_SKIP() << "the kernel has no membarrier(2)";
        come_again(role);
        ASSERT_TRUE(role.leased());
    }
    bool taken_elsewhere() { return is_taken_elsewhere(role); }

    ThreadRole role;
};

TEST_F(RoleLease, IsForTheLesseeAlone) {
    ASSERT_TRUE(role.try_acquire());
    EXPECT_TRUE(role.held());
    EXPECT_FALSE(role.try_acquire()) << "twice by one thread";
    role.release();
    EXPECT_TRUE(role.leased());
    EXPECT_FALSE(role.held());
}

TEST_F(RoleLease, EndsWhenAnotherWantsTheRole) {
    EXPECT_TRUE(taken_elsewhere());
    EXPECT_FALSE(role.leased());
    ASSERT_TRUE(role.try_acquire());
    role.release();
}

TEST_F(RoleLease, EndsWhenItsHolderLeaves) {
    ASSERT_TRUE(role.try_acquire());
    EXPECT_FALSE(taken_elsewhere());
    EXPECT_TRUE(role.held());
    EXPECT_FALSE(role.leased());
    EXPECT_FALSE(role.try_acquire()) << "while it holds it";
    role.release();
    EXPECT_FALSE(role.held());
    EXPECT_TRUE(taken_elsewhere());
}

TEST_F(RoleLease, TakesLongerToGetWhenItIsTakenAwayAtOnce) {
    ASSERT_TRUE(taken_elsewhere());
    for (std::uint32_t i = 0; i < ThreadRole::releases_for_lease; ++i) {
        ASSERT_TRUE(role.try_acquire());
        role.release_or_lease();
    }
    EXPECT_FALSE(role.leased());
    come_again(role);
    EXPECT_TRUE(role.leased());
}

TEST_F(RoleLease, IsNotGivenToOneOfTwoThatTakeTurns) {
    ASSERT_TRUE(taken_elsewhere());
    for (std::uint32_t i = 0; i < 16; ++i) {
        for (std::uint32_t j = 0; j < ThreadRole::releases_for_lease / 2; ++j) {
            ASSERT_TRUE(role.try_acquire());
            role.release_or_lease();
        }
        ASSERT_TRUE(taken_elsewhere());
    }
    EXPECT_FALSE(role.leased());
}

TEST(ThreadRole, GuardsForManyThreads) {
    constexpr int threads = 4, rounds = 20'000;
    ThreadRole role;
    long first = 0, second = 0;  // always the same for the holder
    bool torn = false;
    const auto work = [&] {
        for (int i = 0; i < rounds; ++i) {
            const LeaseGuard turn(role);
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
TEST(ThreadRole, WhoWaitsLongSleeps) {
    ThreadRole role;
    role.acquire();
    std::thread waiter([&] { const LeaseGuard turn(role); });
    timespec before{}, after{};
    clockid_t clock{};
    pthread_getcpuclockid(waiter.native_handle(), &clock);
    const timespec pause{0, 20'000'000};
    nanosleep(&pause, nullptr);  // so that it waits; nothing depends on it
    clock_gettime(clock, &before);
    const timespec hold{0, 200'000'000};
    nanosleep(&hold, nullptr);
    clock_gettime(clock, &after);
    role.release();
    waiter.join();
    const double used = static_cast<double>(after.tv_sec - before.tv_sec) +
                        static_cast<double>(after.tv_nsec - before.tv_nsec) * 1e-9;
    EXPECT_LT(used, 0.15) << "of 0.2 s";
}

}  // namespace
}  // namespace railyard
