#include "rail/stall_clock.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace railyard {
namespace {

constexpr std::uint64_t limit = 1000;

TEST(StallClock, RunsOutWhereItIsAskedAllTheTime) {
    StallClock clock;
    for (std::uint64_t now = 1; now < 1 + limit; now += 10)
        ASSERT_FALSE(clock.refusal(limit, false, now)) << now;
    EXPECT_TRUE(clock.refusal(limit, false, 1 + limit));
}

/// A program that computes, or was stopped, between two calls.
TEST(StallClock, CountsLittleOfATimeInWhichNobodyAsked) {
    StallClock clock;
    EXPECT_FALSE(clock.refusal(limit, false, 1));
    EXPECT_FALSE(clock.refusal(limit, false, 100 * limit));
    std::uint64_t now = 100 * limit;
    while (!clock.refusal(limit, false, now))
        now += 10;
    EXPECT_EQ(now, 100 * limit + 3 * limit / 4);
}

/// Else who asks seldom would wait without end.
TEST(StallClock, RunsOutWhereItIsAskedSeldom) {
    StallClock clock;
    int asked = 0;
    for (std::uint64_t now = 1; !clock.refusal(limit, false, now); now += 7 * limit)
        ASSERT_LT(++asked, 100);
    EXPECT_EQ(asked, 4);
}

/// The pauses that it asks for are not such times.
TEST(StallClock, CountsThePausesThatItAsksFor) {
    constexpr std::uint64_t long_limit = 400'000'000;
    StallClock clock;
    std::uint64_t now = 1;
    while (!clock.refusal(long_limit, true, now))
        now += long_limit / 2;
    EXPECT_LE(now, 1 + long_limit * 3 / 2);
}

}  // namespace
}  // namespace railyard
