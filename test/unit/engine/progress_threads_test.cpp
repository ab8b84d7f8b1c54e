// Several progress threads of one engine: who serves what, who is woken, and how they end.
#include "engine/progress_threads.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "../stub_rail.h"
#include "common/clock.h"
#include "least_of.h"
#include "log_lines.h"

namespace railyard {
namespace progress_threads_test {

/// A rail that remembers who serves it.
class TellingRail final : public StubRail {
  public:
    TellingRail() : StubRail("telling"), fd_(eventfd(0, EFD_NONBLOCK)) {}
    ~TellingRail() override { close(fd_); }
    [[nodiscard]] int wait_fd() const noexcept override { return fd_; }

    /// Something comes in: its descriptor tells.
    void arrive() {
        served_.store(false);
        const std::uint64_t one = 1;
        EXPECT_EQ(write(fd_, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
    }
    /// Something is to be done of which nobody tells but wake().
    void leave_work() {
        served_.store(false);
        load_.store(1);
    }
    /// The last that came or was left.
    [[nodiscard]] bool served() const { return served_.load(); }
    [[nodiscard]] long rounds() const { return rounds_.load(); }
    [[nodiscard]] std::string server() const { return server_.data(); }

  private:
    bool serve(bool) noexcept override {
        rounds_.fetch_add(1);
        std::uint64_t value = 0;
        const bool told = read(fd_, &value, sizeof(value)) > 0;
        if (load_.exchange(0) == 0 && !told) return false;
        if (!served_.load()) pthread_getname_np(pthread_self(), server_.data(), server_.size());
        served_.store(true);
        return true;
    }
    bool may_wait() noexcept override { return true; }

    int fd_;
    std::atomic<long> rounds_{0};
    std::atomic<bool> served_{false};
    std::array<char, 16> server_{};  ///< before served_
};

/// Not asked again once it has been true: a thread that looks now and then does not stay asleep.
template <class Condition>
bool soon(Condition condition) {
    const std::uint64_t limit = now_ns() + 5'000'000'000;
    const timespec moment{0, 200'000};
    while (!condition()) {
        if (now_ns() >= limit) return false;
        nanosleep(&moment, nullptr);
    }
    return true;
}

class ProgressThreadsTest : public testing::Test {
  protected:
    /// Ends those of before.
    void start(
        std::function<bool()> chores = [] { return false; }, bool bound = false) {
        threads.reset();
        std::vector<ProgressThreads::Part> parts(2);
        for (std::size_t i = 0; i < rails.size(); ++i) {
            parts[i / 2].rails.push_back(&rails[i]);
            rounds_before[i] = rails[i].rounds();
        }
        for (ProgressThreads::Part& part : parts) {
            part.bound = bound;
            part.place = "no node";
        }
        threads.emplace().start(std::move(parts),
                                {std::chrono::microseconds(0), [this] { return passes.load(); }, "alpha"},
                                {[this] { watches.fetch_add(1); }, std::move(chores), nullptr});
    }
    /// Until both have gone to sleep: each has looked at its rails, and then none does for a while.
    void let_sleep() {
        EXPECT_TRUE(soon([&] {
            bool all_looked_at = true;
            for (std::size_t i = 0; i < rails.size(); ++i)
                all_looked_at = all_looked_at && rails[i].rounds() > rounds_before[i];
            const long before = rounds();
            const timespec moment{0, 20'000'000};
            nanosleep(&moment, nullptr);
            return all_looked_at && rounds() == before;
        }));
    }
    /// The thread of that rail is asleep, and its block, which ends by itself after 500 ms, has just begun.
    void let_sleep_anew(TellingRail& rail) {
        let_sleep();
        rail.arrive();
        EXPECT_TRUE(soon([&] { return rail.served(); }));
        let_sleep();
    }
    [[nodiscard]] long rounds() const {
        long sum = 0;
        for (const TellingRail& rail : rails)
            sum += rail.rounds();
        return sum;
    }

    std::array<TellingRail, 4> rails;
    std::array<long, 4> rounds_before{};
    std::atomic<std::uint64_t> passes{0};
    std::atomic<long> watches{0};
    std::optional<ProgressThreads> threads;
};

TEST_F(ProgressThreadsTest, EachServesItsRails) {
    start();
    EXPECT_EQ(threads->size(), 2u);
    for (TellingRail& rail : rails)
        rail.arrive();
    for (std::size_t i = 0; i < rails.size(); ++i) {
        ASSERT_TRUE(soon([&] { return rails[i].served(); })) << i;
        EXPECT_EQ(rails[i].server(), i < 2 ? "railyard-prog" : "railyard-prog1") << i;
    }
}

TEST_F(ProgressThreadsTest, OfTheOthersThoseWithWorkAreWoken) {
    start();
    const auto looks_meanwhile = [&] {
        let_sleep_anew(rails[2]);
        const long before = rails[2].rounds();
        rails[0].leave_work();
        threads->wake();
        EXPECT_TRUE(soon([&] { return rails[0].served(); }));
        let_sleep();
        return rails[2].rounds() - before;
    };
    EXPECT_EQ(test::least_of(1, looks_meanwhile), 0) << "the second thread was woken for nothing";
    const auto time_to_serve = [&] {
        let_sleep_anew(rails[2]);
        const std::uint64_t left = now_ns();
        rails[3].leave_work();
        threads->wake();
        EXPECT_TRUE(soon([&] { return rails[3].served(); }));
        return now_ns() - left;
    };
    constexpr std::uint64_t limit = 300'000'000;
    EXPECT_LT(test::least_of(limit, time_to_serve), limit) << "not before a block's limit of 500 ms";
}

/// What comes in on its rails is seen to by whoever brought it in; what does not end there is the first
/// one's.
TEST_F(ProgressThreadsTest, ChoresAreEverybodysAndWhatStaysIsTheFirsts) {
    std::atomic<bool> more{false};
    std::atomic<long> by_first{0}, by_second{0};
    start([&] {
        char name[16] = "";
        pthread_getname_np(pthread_self(), name, sizeof name);
        (std::string(name) == "railyard-prog" ? by_first : by_second).fetch_add(1);
        return more.load();
    });
    let_sleep();
    const long first = by_first.load(), second = by_second.load();
    more = true;
    rails[2].arrive();
    EXPECT_TRUE(soon([&] { return by_second.load() > second; }));
    EXPECT_TRUE(soon([&] { return by_first.load() > first + 100; })) << "the first looks after it at once";
    const long seconds_rounds = rails[2].rounds();
    const long firsts = by_first.load();
    EXPECT_TRUE(soon([&] { return by_first.load() > firsts + 1000; }));
    EXPECT_LT(rails[2].rounds(), seconds_rounds + 1000) << "the second goes to sleep meanwhile";
    more = false;
    threads->stop();  // they call what is counted here
}

TEST_F(ProgressThreadsTest, TheFirstAloneWatches) {
    start();
    const auto watches_meanwhile = [&] {
        let_sleep_anew(rails[0]);
        const long before = watches.load();
        rails[3].arrive();
        EXPECT_TRUE(soon([&] { return rails[3].served(); }));
        let_sleep();
        return watches.load() - before;
    };
    EXPECT_EQ(test::least_of(1, watches_meanwhile), 0);
    const long before = watches.load();
    rails[0].arrive();
    EXPECT_TRUE(soon([&] { return watches.load() > before; }));
}

TEST_F(ProgressThreadsTest, EndAtOnceFromABlockAndMayBeWokenAfterwards) {
    const auto time_to_end = [&] {
        start();
        let_sleep();
        const std::uint64_t before = now_ns();
        threads->stop();
        return now_ns() - before;
    };
    constexpr std::uint64_t limit = 400'000'000;
    EXPECT_LT(test::least_of(limit, time_to_end), limit) << "a block's limit is 500 ms";
    rails[2].leave_work();
    threads->wake();
    EXPECT_FALSE(rails[2].served());
    threads->stop();
}

TEST_F(ProgressThreadsTest, TheLogSaysWhereTheyStay) {
    const test::LogLines log(log::Level::debug);
    start([] { return false; }, true);
    EXPECT_TRUE(log.contain("progress thread 0: 2 rails of no node, on any CPU (the topology names none)"));
    EXPECT_TRUE(log.contain("progress thread 1: 2 rails of no node, on any CPU"));
}

TEST(ProgressThreads, OfNoneNobodyIsWoken) {
    ProgressThreads none;
    none.wake();
    none.stop();
    EXPECT_EQ(none.size(), 0u);
}

}  // namespace progress_threads_test
}  // namespace railyard
