#include "engine/rate_model.h"

#include <gtest/gtest.h>

namespace railyard {
namespace {

TEST(RateModel, SaysWhatItHasMeasured) {
    RateModel model;
    EXPECT_FALSE(model.has_latency());
    EXPECT_FALSE(model.has_rate());
    EXPECT_EQ(model.estimate_ns(1000), 0);
    for (int i = 0; i < 100; ++i) {
        model.record(8, 5'000);
        model.record(1'000'000, 500'000);
    }
    EXPECT_TRUE(model.has_latency());
    EXPECT_TRUE(model.has_rate());
    EXPECT_NEAR(model.estimate_ns(0), 5'000, 1);
    EXPECT_NEAR(model.estimate_ns(2'000'000), 1'005'000, 1'000);
}

TEST(RateModel, FollowsAChange) {
    RateModel model;
    model.record(8, 1'000);
    for (int i = 0; i < 100; ++i)
        model.record(8, 9'000);
    EXPECT_NEAR(model.estimate_ns(0), 9'000, 10);
}

}  // namespace
}  // namespace railyard
