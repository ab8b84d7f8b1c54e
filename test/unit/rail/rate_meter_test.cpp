#include "rail/rate_meter.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace railyard {
namespace {

constexpr std::uint64_t kibi = 1 << 10, mebibyte = 1 << 20;

/// A rail whose operations end one after another, each looked at when it has ended.
class RateMeterTest : public testing::Test {
  protected:
    /// A burst of `count` operations, posted at once on a rail that has nothing to do.
    void burst(std::uint32_t count, std::uint64_t bytes, std::uint64_t ns_each,
               std::uint64_t latency_ns = 0) {
        posted_ += count;
        under_way_ = count * bytes;
        now_ += latency_ns;
        while (under_way_ > 0)
            end_one(bytes, ns_each);
    }
    /// One more operation for each that ends.
    void stream(std::uint32_t count, std::uint64_t bytes, std::uint64_t ns_each) {
        for (std::uint32_t i = 0; i < count; ++i) {
            end_one(bytes, ns_each);
            ++posted_;
            under_way_ += bytes;
        }
    }
    void end_one(std::uint64_t bytes, std::uint64_t ns) {
        now_ += ns;
        carried_ += bytes;
        under_way_ -= bytes;
        if (under_way_ < RateMeter::burst_bytes) {
            meter_.pause();
        } else {
            meter_.look({now_, carried_, under_way_, posted_});
        }
    }
    void expect_rate(double rate) { EXPECT_NEAR(static_cast<double>(meter_.rate()), rate, rate / 100); }

    RateMeter meter_;
    std::uint64_t now_ = 1'000, carried_ = 0, under_way_ = 0;
    std::uint32_t posted_ = UINT32_MAX - 20;
};

TEST_F(RateMeterTest, BurstsTellTheRateWithoutTheirLatency) {
    for (int i = 0; i < 20; ++i)
        burst(16, 4 * kibi, 4'096, 50'000);  // a byte a nanosecond
    ASSERT_GT(meter_.samples(), 0u);
    expect_rate(1e9);
}

TEST_F(RateMeterTest, LittleOfItTellsNothing) {
    burst(12, 4 * kibi, 4'096);
    EXPECT_EQ(meter_.samples(), 0u);
    EXPECT_EQ(meter_.rate(), 0u);
}

TEST_F(RateMeterTest, OperationsThatWaitForEachOtherTellNothing) {
    under_way_ = 64 * kibi;
    stream(1'000, 4 * kibi, 100'000);  // latency, as likely as a slow wire
    EXPECT_EQ(meter_.samples(), 0u);
    burst(2, 4 * kibi, 1'000'000);
    EXPECT_EQ(meter_.samples(), 0u);
}

TEST_F(RateMeterTest, AStreamWithMuchUnderWayTellsTheRate) {
    under_way_ = 2 * mebibyte;
    stream(20, 256 * kibi, 256 * 1'024);
    expect_rate(1e9);
}

TEST_F(RateMeterTest, TimeWithoutWorkDoesNotCount) {
    for (int i = 0; i < 40; ++i) {
        burst(32, 4 * kibi, 4'096);
        now_ += 10'000'000;
    }
    expect_rate(1e9);
}

TEST_F(RateMeterTest, NorDoesThatAfterAStreamWhoseEndsCameAtOnce) {
    for (int i = 0; i < 10; ++i) {
        under_way_ = 2 * mebibyte;
        stream(8, 256 * kibi, 256 * 1'024);
        carried_ += under_way_;
        meter_.pause();
        now_ += 10'000'000;
    }
    expect_rate(1e9);
}

TEST_F(RateMeterTest, OneSampleThatTookLongDoesNotMakeARailSlow) {
    under_way_ = 2 * mebibyte;
    stream(8 * RateMeter::samples_in_window + 1, 256 * kibi, 256 * 1'024);
    const std::uint64_t rate = meter_.rate();
    now_ += 50'000'000;  // nobody looked
    stream(8, 256 * kibi, 256 * 1'024);
    EXPECT_EQ(meter_.samples(), RateMeter::samples_in_window + 1);
    EXPECT_EQ(meter_.rate(), rate);
}

TEST_F(RateMeterTest, ARailThatBecameSlowIsFoundOutAndOneThatBecameFastMuchSooner) {
    under_way_ = 2 * mebibyte;
    const auto samples = [this](std::uint32_t count, std::uint64_t ns_each) {
        stream(count * RateMeter::stretches_in_sample + 1, 256 * kibi, ns_each);
    };
    samples(4, 256 * 1'024);
    samples(2 * RateMeter::samples_in_window, 4 * 256 * 1'024);
    expect_rate(0.25e9);
    samples(2, 256 * 1'024);
    expect_rate(1e9);
}

}  // namespace
}  // namespace railyard
