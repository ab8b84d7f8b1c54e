#include "engine/progress_thread.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <string>

#include "../stub_rail.h"
#include "own_threads.h"

namespace railyard {
namespace {

/// A rail that counts its rounds and can be woken through a descriptor, or has none.
class CountingRail final : public StubRail {
  public:
    explicit CountingRail(bool waitable)
        : StubRail("counting"), fd_(waitable ? eventfd(0, EFD_NONBLOCK) : -1) {}
    ~CountingRail() override {
        if (fd_ >= 0) close(fd_);
    }
    [[nodiscard]] int wait_fd() const noexcept override { return fd_; }

    void arrive() {
        arrived_.fetch_add(1);
        const std::uint64_t one = 1;
        EXPECT_EQ(write(fd_, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
    }
    bool wait_served(int count) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, std::chrono::seconds(5), [&] { return served_ >= count; });
    }
    [[nodiscard]] long rounds() const { return rounds_.load(); }
    /// Each round takes 3 ms.
    void make_slow(bool slow) { slow_ = slow; }
    /// The next round takes until then.
    void stay_until(const std::atomic<bool>& end) { stay_until_ = &end; }

  private:
    bool serve(bool) noexcept override {
        rounds_.fetch_add(1);
        const timespec long_time{0, 3'000'000};
        if (slow_) nanosleep(&long_time, nullptr);
        while (stay_until_ && !*stay_until_)
            nanosleep(&long_time, nullptr);
        std::uint64_t value = 0;
        if (fd_ < 0 || read(fd_, &value, sizeof(value)) < 0) return false;
        const std::lock_guard lock(mutex_);
        served_ += static_cast<int>(value);
        changed_.notify_all();
        return true;
    }
    bool may_wait() noexcept override { return true; }

    int fd_;
    std::atomic<long> rounds_{0};
    std::atomic<int> arrived_{0};
    std::atomic<bool> slow_{false};
    const std::atomic<bool>* stay_until_ = nullptr;
    std::mutex mutex_;
    std::condition_variable changed_;
    int served_ = 0;
};

double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

/// A second in which nothing happens: how often the thread looked, and what share of a core the process used.
/// The share depends on what a wake-up costs here (up to 0.2 ms on a virtual machine); the looks do not.
struct Idle {
    long rounds;
    double share;
};

Idle idle_for_a_second(bool waitable) {
    CountingRail rail(waitable);
    std::atomic<std::uint64_t> passes{0};
    ProgressThread thread({&rail}, std::chrono::microseconds(0), [&passes] { return passes.load(); });
    const timespec second{1, 0};
    const double before = cpu_seconds();
    nanosleep(&second, nullptr);  // the thing measured is a second of nothing
    return {rail.rounds(), cpu_seconds() - before};
}

/// Looks while it spins (20 us) before its first sleep, with room.
constexpr long spinning_rounds = 1000;

TEST(ProgressThread, BlocksWhenThereIsNothingToDo) {
    const Idle idle = idle_for_a_second(true);
    EXPECT_LT(idle.rounds, spinning_rounds + 20);
    EXPECT_LT(idle.share, 0.2);
}

/// Steps up to 2 ms for the first 200 ms, of 40 ms from there on: some 130 sleeps.
TEST(ProgressThread, SleepsLongerAndLongerWithoutADescriptor) {
    const Idle idle = idle_for_a_second(false);
    EXPECT_LT(idle.rounds, spinning_rounds + 3 * 130);
    EXPECT_LT(idle.share, 0.4);
}

TEST(ProgressThread, ServesWhatArrivesWhileItIsBlocked) {
    CountingRail rail(true);
    std::atomic<std::uint64_t> passes{0};
    ProgressThread thread({&rail}, std::chrono::microseconds(0), [&passes] { return passes.load(); });
    for (int i = 1; i <= 50; ++i) {
        rail.arrive();
        ASSERT_TRUE(rail.wait_served(i)) << i;
    }
}

TEST(ProgressThread, StaysAwayWhileCallersDrive) {
    CountingRail rail(true);
    std::atomic<std::uint64_t> passes{0};
    ProgressThread thread({&rail}, std::chrono::microseconds(0), [&passes] { return passes.load(); });
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    long calls = 0;
    const long before = rail.rounds();
    while (std::chrono::steady_clock::now() < end) {
        passes.fetch_add(1);
        ++calls;
    }
    EXPECT_GT(calls, 10'000);
    EXPECT_LT(rail.rounds() - before, calls / 10);
}

/// As when the bytes of a large block are copied: its next pass follows at once, and is the caller's.
TEST(ProgressThread, StaysAwayWhileACallerIsLongAtIt) {
    CountingRail rail(true);
    std::atomic<std::uint64_t> passes{0};
    ProgressThread thread({&rail}, std::chrono::microseconds(0), [&passes] { return passes.load(); });
    rail.make_slow(true);
    const auto pass = [&] {
        passes.fetch_add(1);
        rail.progress();
    };
    pass();  // the thread has looked by now
    constexpr int own = 50;
    const long before = rail.rounds();
    for (int i = 0; i < own; ++i) {
        rail.arrive();
        pass();
    }
    EXPECT_LE(rail.rounds() - before, own + 10) << "between two passes, where the machine stopped us there";
    rail.make_slow(false);
    rail.arrive();
    EXPECT_TRUE(rail.wait_served(own + 1)) << "nobody passes any more";
}

/// How often the one progress thread of this process has slept.
long sleeps() {
    for (const test::OwnThread& thread : test::own_threads("railyard-prog")) {
        if (thread.name == "railyard-prog") return std::stol(thread.status("voluntary_ctxt_switches:"));
    }
    ADD_FAILURE() << "no progress thread";
    return 0;
}

/// A caller in whose posts the provider copies all the time, for 0.6 s; of the last 0.4 s: how often the
/// thread slept. With `passes`, the caller begins one every 20 ms in between.
long sleeps_beside_a_slow_caller(bool passes) {
    CountingRail rail(true);
    std::atomic<std::uint64_t> begun{0};
    std::atomic<bool> end{false};
    rail.stay_until(end);
    std::thread caller([&] { rail.progress(); });  // never leaves the rail, so that the thread never gets it
    while (!rail.in_use())
        std::this_thread::yield();
    long counted = 0;
    {
        ProgressThread thread({&rail}, std::chrono::microseconds(0), [&begun] { return begun.load(); });
        const timespec pause{0, 20'000'000};
        for (int pauses = 0; pauses < 30; ++pauses) {
            if (pauses == 10) counted = sleeps();
            if (passes) begun.fetch_add(1);
            nanosleep(&pause, nullptr);
        }
        counted = sleeps() - counted;
        end = true;
        caller.join();
    }
    return counted;
}

/// 8 ms each.
TEST(ProgressThread, SleepsLongerWhileACallerPostsMuchBetweenTwoPasses) {
    EXPECT_LT(sleeps_beside_a_slow_caller(true), 150);
}

/// 0.4 ms each; of 8 ms there were 50 at most. Nobody else reads the completions.
TEST(ProgressThread, DoesNotSleepLongerForACallerWhoOnlyPosts) {
    EXPECT_GT(sleeps_beside_a_slow_caller(false), 60);
}

/// What peers wait for must not wait for a caller who looks now and then, however much it did before.
TEST(ProgressThread, TakesOverFromACallerWhoBeginsToRest) {
    CountingRail rail(false);
    std::atomic<std::uint64_t> passes{0};
    ProgressThread thread({&rail}, std::chrono::microseconds(0), [&passes] { return passes.load(); });
    const auto poll_for = [&](std::chrono::milliseconds time, long pause_ns) {
        const timespec pause{0, pause_ns};
        for (const auto end = std::chrono::steady_clock::now() + time;
             std::chrono::steady_clock::now() < end;) {
            passes.fetch_add(1);
            if (pause_ns) nanosleep(&pause, nullptr);
        }
    };
    poll_for(std::chrono::milliseconds(200), 0);
    poll_for(std::chrono::milliseconds(20), 1'000'000);  // it may still be asleep
    const long before = rail.rounds();
    poll_for(std::chrono::milliseconds(200), 1'000'000);
    EXPECT_GT(rail.rounds() - before, 20);
}

/// After they have driven for so long that it would leave the rails to them for 8 ms at a time, and once more
/// when it finds what they did before they stopped.
TEST(ProgressThread, WithCpusToSpareTakesOverSoonFromCallersWhoStop) {
    CountingRail rail(false);
    std::atomic<std::uint64_t> passes{0};
    ProgressThread thread(
        {&rail}, std::chrono::microseconds(0), [&passes] { return passes.load(); }, [] { return false; },
        nullptr, ProgressThread::Place{nullptr, 0, true});
    constexpr int turns = 11;
    std::array<std::chrono::steady_clock::duration, turns> taken{};
    for (auto& time : taken) {
        for (const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(120);
             std::chrono::steady_clock::now() < end;)
            passes.fetch_add(1);
        const auto start = std::chrono::steady_clock::now();
        const auto limit = start + std::chrono::seconds(5);
        for (const long before = rail.rounds();
             rail.rounds() == before && std::chrono::steady_clock::now() < limit;)
            std::this_thread::yield();
        time = std::chrono::steady_clock::now() - start;
    }
    std::sort(taken.begin(), taken.end());
    EXPECT_LT(taken[turns / 2], std::chrono::milliseconds(4)) << "half of the times";
}

/// It was blocked when they began, so that nothing tells it when they stopped; by what they did since its
/// last look it would leave them an eighth of the time, 6 ms.
TEST(ProgressThread, DoesNotWaitForCallersWhoDroveWhileItWasBlocked) {
    CountingRail rail(true);
    std::atomic<std::uint64_t> passes{0};
    ProgressThread thread({&rail}, std::chrono::microseconds(0), [&passes] { return passes.load(); });
    constexpr int turns = 9;
    std::array<std::chrono::steady_clock::duration, turns> taken{};
    for (int turn = 0; turn < turns; ++turn) {
        const timespec until_it_blocks{0, 10'000'000};
        nanosleep(&until_it_blocks, nullptr);
        for (const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
             std::chrono::steady_clock::now() < end;)
            passes.fetch_add(1);
        const auto start = std::chrono::steady_clock::now();
        rail.arrive();
        ASSERT_TRUE(rail.wait_served(turn + 1));
        taken[static_cast<std::size_t>(turn)] = std::chrono::steady_clock::now() - start;
    }
    std::sort(taken.begin(), taken.end());
    EXPECT_LT(taken[turns / 2], std::chrono::milliseconds(3)) << "half of the times";
}

/// Work that comes up between a look that found none and the sleep, when there is nobody to wake yet.
TEST(ProgressThread, LooksAtItsChoreOnceMoreBeforeItBlocks) {
    for (const bool waitable : {true, false}) {
        CountingRail rail(waitable);
        std::atomic<std::uint64_t> passes{0};
        std::atomic<int> looks{0};
        ProgressThread thread(
            {&rail}, std::chrono::microseconds(0), [&passes] { return passes.load(); },
            [&] {
                const timespec longer_than_it_spins{0, 50'000};
                nanosleep(&longer_than_it_spins, nullptr);
                return looks.fetch_add(1) % 2 == 1;
            });
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (looks < 200 && std::chrono::steady_clock::now() < limit)
            std::this_thread::yield();
        EXPECT_GE(looks, 200) << "it slept through one of them";
    }
}

TEST(ProgressThread, EndsAtOnceFromABlock) {
    CountingRail rail(true);
    std::atomic<std::uint64_t> passes{0};
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 20; ++i)
        ProgressThread thread({&rail}, std::chrono::microseconds(0), [&passes] { return passes.load(); });
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

}  // namespace
}  // namespace railyard
