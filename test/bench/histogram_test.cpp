#include "histogram.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

namespace railyard::bench {
namespace {

TEST(Histogram, EmptyIsZero) {
    auto histogram = std::make_unique<Histogram>();
    EXPECT_EQ(histogram->percentile(0.5), 0);
    EXPECT_EQ(histogram->count(), 0u);
}

TEST(Histogram, PercentilesAreWithinOnePercent) {
    auto histogram = std::make_unique<Histogram>();
    for (std::uint64_t value = 1; value <= 100'000; ++value)
        histogram->add(value * 10);
    for (double fraction : {0.001, 0.5, 0.9, 0.99, 0.999, 1.0}) {
        double exact = fraction * 1'000'000;
        EXPECT_NEAR(histogram->percentile(fraction), exact, exact * 0.01 + 1) << fraction;
    }
}

TEST(Histogram, OneSlowValueShowsInTheTailOnly) {
    auto histogram = std::make_unique<Histogram>();
    for (int i = 0; i < 999; ++i)
        histogram->add(100);
    histogram->add(5'000'000);
    EXPECT_NEAR(histogram->percentile(0.99), 100, 1);
    EXPECT_NEAR(histogram->percentile(1.0), 5'000'000, 50'000);
}

TEST(Histogram, AnyValueIsTaken) {
    auto histogram = std::make_unique<Histogram>();
    histogram->add(0);
    histogram->add(std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(histogram->percentile(0.5), 0);
    EXPECT_GT(histogram->percentile(1.0), 1e13);
}

TEST(Histogram, MergeAdds) {
    auto one = std::make_unique<Histogram>();
    auto two = std::make_unique<Histogram>();
    one->add(10);
    two->add(1000);
    one->merge(*two);
    EXPECT_EQ(one->count(), 2u);
    EXPECT_EQ(one->percentile(0.5), 10);
    EXPECT_NEAR(one->percentile(1), 1000, 10);
}

}  // namespace
}  // namespace railyard::bench
