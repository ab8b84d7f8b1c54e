#include "engine/rail_pace.h"

#include <gtest/gtest.h>

namespace railyard {
namespace {

constexpr std::uint64_t step_ns = 50'000'000;

/// Rails with given rates (bytes a look) and always enough under way, unless `idle`.
class RailPaceTest : public testing::Test {
  protected:
    /// Changes of that many windows, as "+2 -1": rail 2 crawls, rail 1 keeps up again.
    std::string windows(std::size_t count, const std::vector<std::uint64_t>& rates, std::size_t idle = 99) {
        std::string text;
        for (std::size_t i = 0; i < count * RailPace::looks_in_window; ++i) {
            for (std::size_t rail = 0; rail < looks_.size(); ++rail) {
                looks_[rail].carried += rates[rail];
                looks_[rail].under_way = rail == idle ? 1000 : 1 << 20;
            }
            if (!pace_.look(looks_, now_ += step_ns)) continue;
            for (const RailPace::Change& change : pace_.changes()) {
                text += (change.crawls ? "+" : "-") + std::to_string(change.rail);
                last_ = change;
            }
        }
        return text;
    }
    void SetUp() override { pace_.look(looks_, now_); }

    RailPace pace_{4};
    std::vector<RailPace::Look> looks_{4};
    std::uint64_t now_ = 1;
    RailPace::Change last_;
};

TEST_F(RailPaceTest, ARailThatCarriesLessThanAQuarterOfTheOthersIsToldOfOnceAndAgainWhenItKeepsUp) {
    EXPECT_EQ(windows(5, {1000, 1000, 1000, 1000}), "");
    EXPECT_EQ(windows(2, {1000, 1000, 200, 1000}), "") << "not for a moment";
    EXPECT_EQ(windows(1, {1000, 1000, 200, 1000}), "+2");
    EXPECT_NEAR(last_.rate, 200 * 20, 1);
    EXPECT_NEAR(last_.others, 1000 * 20, 1);
    EXPECT_TRUE(pace_.crawls(2));
    EXPECT_EQ(windows(5, {1000, 1000, 200, 1000}), "");
    EXPECT_EQ(windows(5, {1000, 1000, 400, 1000}), "") << "neither";
    EXPECT_EQ(windows(3, {1000, 1000, 700, 1000}), "-2");
    EXPECT_FALSE(pace_.crawls(2));
}

TEST_F(RailPaceTest, AMomentInBetweenStartsTheCountAnew) {
    EXPECT_EQ(windows(2, {100, 1000, 1000, 1000}), "");
    EXPECT_EQ(windows(1, {900, 1000, 1000, 1000}), "");
    EXPECT_EQ(windows(2, {100, 1000, 1000, 1000}), "");
}

TEST_F(RailPaceTest, ARailWithLittleToDoIsNotSlow) {
    EXPECT_EQ(windows(6, {1000, 10, 1000, 1000}, 1), "");
    EXPECT_EQ(windows(6, {0, 1000, 0, 0}, 1), "") << "all the others are equal";
}

TEST_F(RailPaceTest, ARailThatIsKnownToBeSlowCrawlsWithLittleToDo) {
    looks_[2].weight = 0.25;
    EXPECT_EQ(windows(10, {1000, 1000, 0, 1000}, 2), "");
    looks_[2].weight = 0.2;
    EXPECT_EQ(windows(2, {1000, 1000, 0, 1000}, 2), "") << "not for a moment";
    EXPECT_EQ(windows(1, {1000, 1000, 0, 1000}, 2), "+2");
    EXPECT_NEAR(last_.rate, 200 * 20, 1);
    EXPECT_EQ(windows(10, {1000, 1000, 1000, 1000}), "") << "in a trial, and not measured yet";
    looks_[2].weight = 1;
    EXPECT_EQ(windows(10, {1000, 1000, 0, 1000}, 2), "") << "nobody knows";
    EXPECT_EQ(windows(3, {1000, 1000, 1000, 1000}), "-2");
}

TEST_F(RailPaceTest, ARailWithoutAnyOthersIsNotSlow) {
    RailPace one(1);
    std::vector<RailPace::Look> look(1);
    for (int i = 0; i < 100; ++i)
        EXPECT_FALSE(one.look(look, now_ += step_ns));
}

TEST_F(RailPaceTest, WhatHappensInAPauseDoesNotCount) {
    EXPECT_EQ(windows(2, {100, 1000, 1000, 1000}), "");
    pace_.pause();
    for (RailPace::Look& look : looks_)
        look.carried += 1'000'000'000;
    now_ += 60 * step_ns;
    pace_.look(looks_, now_);
    EXPECT_EQ(windows(1, {100, 1000, 1000, 1000}), "+0");
    EXPECT_NEAR(last_.others, 1000 * 20, 1);
}

}  // namespace
}  // namespace railyard
