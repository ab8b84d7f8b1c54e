#include "engine/rail_weights.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace railyard {
namespace rail_weights_test {

class RailWeightsTest : public testing::Test {
  protected:
    /// So many looks, before each of which every rail with a rate has been measured again.
    bool look(const std::vector<std::uint64_t>& mega, std::uint32_t times = 1) {
        bool changed = false;
        for (std::uint32_t i = 0; i < times; ++i) {
            for (std::size_t rail = 0; rail < rates_.size(); ++rail) {
                if (mega[rail] == 0) continue;
                rates_[rail] = {mega[rail] * 1'000'000, rates_[rail].samples + 1};
            }
            changed = weights_.look(rates_) || changed;
        }
        return changed;
    }
    [[nodiscard]] std::vector<std::uint32_t> weights() const {
        std::vector<std::uint32_t> all;
        for (std::size_t i = 0; i < rates_.size(); ++i)
            all.push_back(weights_.weight(i));
        return all;
    }
    using Weights = std::vector<std::uint32_t>;

    RailWeights weights_{4};
    std::vector<Rail::MeasuredRate> rates_{4};
};

TEST_F(RailWeightsTest, ARailAtAQuarterIsWorthAQuarter) {
    EXPECT_TRUE(look({1000, 1000, 250, 1000}, 3));
    EXPECT_EQ(weights(), (Weights{256, 256, 64, 256}));
    EXPECT_TRUE(weights_.uneven());
}

TEST_F(RailWeightsTest, AboutTheSameIsTheSame) {
    EXPECT_FALSE(look({1000, 800, 1200, 900}, 50));
    EXPECT_EQ(weights(), (Weights{256, 256, 256, 256}));
    EXPECT_FALSE(weights_.uneven());
}

TEST_F(RailWeightsTest, ARailThatNobodyHasMeasuredIsLikeTheOthers) {
    EXPECT_FALSE(look({1000, 0, 1000, 0}, 50));
    EXPECT_FALSE(weights_.uneven());
    EXPECT_TRUE(look({1000, 0, 1000, 250}, 3));
    EXPECT_EQ(weights(), (Weights{256, 256, 256, 64}));
}

TEST_F(RailWeightsTest, ARailWithoutAnyOthersIsNotSlow) {
    EXPECT_FALSE(look({0, 0, 250, 0}, 50));
    EXPECT_FALSE(weights_.uneven());
}

TEST_F(RailWeightsTest, AMomentIsNotEnoughAndAnOldSampleIsNoOther) {
    EXPECT_FALSE(look({1000, 1000, 250, 1000}));
    for (int i = 0; i < 10; ++i)
        EXPECT_FALSE(look({1000, 1000, 0, 1000})) << "measured once";
    EXPECT_FALSE(look({1000, 1000, 1000, 1000}));
    EXPECT_FALSE(look({1000, 1000, 250, 1000}, RailWeights::looks_before_slow - 1));
    EXPECT_TRUE(look({1000, 1000, 250, 1000}));
}

TEST_F(RailWeightsTest, ARailThatIsFastAgainHasItsShareAtTheNextLook) {
    look({1000, 1000, 250, 1000}, 3);
    look({1000, 1000, 800, 1000});
    EXPECT_EQ(weights(), (Weights{256, 256, 205, 256})) << "not quite";
    EXPECT_TRUE(look({1000, 1000, 900, 1000}));
    EXPECT_FALSE(weights_.uneven());
}

TEST_F(RailWeightsTest, ASlowRailThatIsNotMeasuredAnyMoreIsForgotten) {
    look({1000, 1000, 250, 1000}, 3);
    EXPECT_FALSE(look({1000, 1000, 0, 1000}, RailWeights::looks_until_stale - 1));
    EXPECT_TRUE(look({1000, 1000, 0, 1000}));
    EXPECT_FALSE(weights_.uneven());
    EXPECT_FALSE(look({1000, 1000, 0, 1000}, 50));
    EXPECT_TRUE(look({1000, 1000, 250, 1000}, 3));
    EXPECT_EQ(weights(), (Weights{256, 256, 64, 256}));
}

TEST_F(RailWeightsTest, AFastOneAmongOthersMakesNoneOfThemSlow) {
    EXPECT_FALSE(look({1000, 1000, 1000, 4000}, 50));
}

TEST_F(RailWeightsTest, TwoOfFourMayBeSlow) {
    EXPECT_TRUE(look({1000, 250, 250, 1000}, 3));
    EXPECT_EQ(weights(), (Weights{256, 64, 64, 256}));
}

TEST_F(RailWeightsTest, TheSlowestStillHasSomeWeight) {
    look({1000, 1000, 1, 1000}, 3);
    EXPECT_EQ(weights()[2], RailWeights::least_weight);
}

}  // namespace rail_weights_test
}  // namespace railyard
