// The network model: rates, incast, latency, order, counters.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "control.h"
#include "side.h"

namespace simefa::test {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Resets what a test set, also when it fails.
class Model : public testing::Test {
  protected:
    ~Model() override { control.reset(); }
    Control control;
};

/// Writes `count` operations of `length` bytes through each pair, all posted at once; returns seconds until
/// all ended.
template <class... Pairs>
double run(int count, std::size_t length, Pairs&... pairs) {
    const auto start = Clock::now();
    auto post = [&](Pair& pair) { EXPECT_EQ(pair.write(0, length), 0); };
    for (int i = 0; i < count; ++i)
        (post(pairs), ...);
    int left = count * static_cast<int>(sizeof...(pairs));
    while (left > 0 && seconds_since(start) < 20)
        ((left -= pairs.left.poll() ? 1 : 0), ...);
    EXPECT_EQ(left, 0);
    return seconds_since(start);
}

/// Of a few tries: a busy machine only ever adds to what something takes.
template <typename Try>
double fastest(Try&& attempt) {
    double best = attempt();
    for (int i = 0; i < 9; ++i)
        best = std::min(best, attempt());
    return best;
}

TEST_F(Model, ARateIsKept) {
    control.set("rate_gbps=0.8");  // 100 MB/s
    Pair pair;
    const double seconds = run(100, 50'000, pair);
    EXPECT_GE(seconds, 0.0499);
    EXPECT_LT(fastest([&] { return run(100, 50'000, pair); }), 0.2);
}

TEST_F(Model, ASlowReceiverSlowsItsSendersTogether) {
    control.set("rx_rate_gbps=0.8", {"*", nic_name(3)});
    Pair first{{.nic = 0}, {.nic = 3}}, second{{.nic = 1}, {.nic = 3}};
    EXPECT_GE(run(50, 50'000, first, second), 0.0499);
}

TEST_F(Model, SeparateReceiversDoNotShare) {
    control.set("rx_rate_gbps=0.8");
    Pair first{{.nic = 0}, {.nic = 2}}, second{{.nic = 1}, {.nic = 3}};
    EXPECT_LT(fastest([&] { return run(50, 50'000, first, second); }), 0.045)
        << "2.5 MB each at 100 MB/s take 25 ms";
}

TEST_F(Model, AReadUsesTheTargetsSendRate) {
    control.set("tx_rate_gbps=0.8", {"*", nic_name(1)});
    Pair pair{{.nic = 0}, {.nic = 1}};
    const auto start = Clock::now();
    for (int i = 0; i < 40; ++i)
        ASSERT_EQ(pair.read(0, 50'000), 0);
    for (int i = 0; i < 40; ++i)
        EXPECT_EQ(pair.left.wait().status, 0);
    EXPECT_GE(seconds_since(start), 0.0199);
}

TEST_F(Model, ALateComerNeedNotWaitForAllThatWasPostedBefore) {
    control.set("rate_gbps=0.8");
    Pair first{{.nic = 0}, {.nic = 2}}, second{{.nic = 0}, {.nic = 2}};
    const double waited = fastest([&] {
        for (int i = 0; i < 100; ++i)
            EXPECT_EQ(first.write(0, 50'000), 0);  // 50 ms of wire
        EXPECT_EQ(second.write(0, 64), 0);
        const auto start = Clock::now();
        int left = 100;
        while (!second.left.poll() && seconds_since(start) < 20)
            left -= first.left.poll() ? 1 : 0;
        const double seconds = seconds_since(start);
        while (left > 0 && seconds_since(start) < 20)
            left -= first.left.poll() ? 1 : 0;
        EXPECT_EQ(left, 0);
        return seconds;
    });
    EXPECT_LT(waited, 0.02);
}

TEST_F(Model, LatencyComesOnTop) {
    control.set("latency_us=5000");
    Pair pair;
    const auto start = Clock::now();
    ASSERT_EQ(pair.write(0, 8), 0);
    EXPECT_EQ(pair.wait_left().status, 0);
    EXPECT_GE(seconds_since(start), 0.005);
    EXPECT_LT(seconds_since(start), 0.5);
}

/// Whether `count` operations posted in order ended in another one; every one exactly once.
bool reordered(Pair& pair, int count) {
    std::vector<int> seen(static_cast<std::size_t>(count)), order;
    for (int& context : seen)
        EXPECT_EQ(pair.write(0, 8, FI_COMPLETION, &context), 0);
    for (int i = 0; i < count; ++i) {
        auto* context = static_cast<int*>(pair.wait_left().context);
        ++*context;
        order.push_back(static_cast<int>(context - seen.data()));
    }
    EXPECT_EQ(seen, std::vector<int>(static_cast<std::size_t>(count), 1));
    return !std::is_sorted(order.begin(), order.end());
}

TEST_F(Model, InOrderUntilToldOtherwise) {
    Pair pair;
    EXPECT_FALSE(reordered(pair, 64));
    control.set("out_of_order=1");
    EXPECT_TRUE(reordered(pair, 64));
    control.set("out_of_order=0");
    EXPECT_FALSE(reordered(pair, 64));
    control.set("jitter_us=500");
    EXPECT_TRUE(reordered(pair, 64));
}

TEST_F(Model, OutOfOrderStillMovesEveryByte) {
    control.set("out_of_order=1");
    control.set("jitter_us=50");
    Pair pair;
    constexpr std::size_t piece = 1024;
    for (std::size_t offset = 0; offset < pair.source.size(); offset += piece)
        ASSERT_EQ(pair.write(offset, piece), 0);
    for (std::size_t offset = 0; offset < pair.source.size(); offset += piece)
        EXPECT_EQ(pair.wait_left().status, 0);
    EXPECT_EQ(pair.source, pair.target);
}

TEST_F(Model, CountersSayWhatHappened) {
    Pair pair{{.nic = 0}, {.nic = 1}};
    const NicPattern left{"*", nic_name(0)}, right{"*", nic_name(1)};
    ASSERT_EQ(pair.write(0, 1000), 0);
    ASSERT_EQ(pair.read(0, 500), 0);
    EXPECT_EQ(pair.wait_left().status, 0);
    EXPECT_EQ(pair.wait_left().status, 0);
    EXPECT_EQ(control.counter("writes", left), 1U);
    EXPECT_EQ(control.counter("reads", left), 1U);
    EXPECT_EQ(control.counter("bytes_out", left), 1000U);
    EXPECT_EQ(control.counter("bytes_in", left), 500U);
    EXPECT_EQ(control.counter("bytes_in", right), 1000U);
    EXPECT_EQ(control.counter("bytes_out", right), 500U);
    EXPECT_EQ(control.counter("doorbells", left), 2U);
    EXPECT_EQ(control.counter("completions", left), 2U);
    EXPECT_EQ(control.counter("in_flight"), 0U);
    EXPECT_EQ(control.counter("regions"), 2U);
    EXPECT_EQ(control.counter("endpoints"), 2U);
}

}  // namespace
}  // namespace simefa::test
