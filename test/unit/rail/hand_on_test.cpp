// Chunks that a rail could not carry, and which rail gets them.
#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "taking_rail.h"

namespace railyard {
namespace {

class HandOn : public testing::Test {
  protected:
    HandOn() {
        for (std::size_t i = 0; i < routes_.size(); ++i) {
            routes_[i].rail = rails_[i].get();
            routes_[i].path = &paths_[i];
        }
        work_.chunks.resize(20);
        work_.lanes.emplace_back(work_, 0, 20);
        submission_.lane = &work_.lanes.front();
        submission_.route = &routes_[0];
        submission_.alternatives = routes_;
        work_.arm(1, nullptr);
        submission_.rearm();
        submission_.run = work_.lanes.front().take_run(8);
        paths_[0].fail();
    }
    std::array<std::unique_ptr<TakingRail>, 3> rails_{
        std::make_unique<TakingRail>(), std::make_unique<TakingRail>(5), std::make_unique<TakingRail>(3)};
    std::array<Path, 3> paths_;
    std::array<Route, 3> routes_;
    Work work_;
    Submission submission_;
};

TEST_F(HandOn, ChunksAndThenTheRestGoToTheLeastLoadedHealthyRail) {
    EXPECT_TRUE(TakingRail::hand_on(submission_, submission_.run));
    EXPECT_EQ(rails_[2]->taken, (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(rails_[2]->attempts, 1u);
    paths_[2].fail();
    EXPECT_TRUE(TakingRail::hand_on(submission_, {}));
    EXPECT_EQ(rails_[1]->taken.size(), 12u);
    EXPECT_TRUE(rails_[0]->taken.empty());
    EXPECT_FALSE(work_.done()) << "the first submission has not ended";
    work_.part_done(Status::ok);
    EXPECT_TRUE(work_.done());
    EXPECT_EQ(work_.status(), Status::ok);
    work_.arm(1, nullptr);  // a later round has nothing to do with it
    EXPECT_EQ(work_.parts_left(), 21u);
    work_.abandon(Status::canceled);
}

TEST_F(HandOn, WhatMayLandLaterIsCountedForWhoHandedItOver) {
    std::atomic<std::uint32_t> late{0};
    submission_.late = &late;
    EXPECT_TRUE(TakingRail::hand_on(submission_, submission_.run));
    EXPECT_EQ(rails_[2]->late, &late);
    work_.abandon(Status::canceled);
}

TEST_F(HandOn, WithoutAHealthyPathNothingIsTaken) {
    paths_[1].fail();
    paths_[2].fail();
    EXPECT_FALSE(TakingRail::hand_on(submission_, submission_.run));
    EXPECT_EQ(work_.parts_left(), 21u);
    paths_[2].heal();
    EXPECT_TRUE(TakingRail::hand_on(submission_, submission_.run));
    work_.abandon(Status::canceled);
}

TEST_F(HandOn, ChunksAreNotTakenFromRailToRailForEver) {
    submission_.attempts = 1000;
    EXPECT_FALSE(TakingRail::hand_on(submission_, submission_.run));
    work_.abandon(Status::canceled);
}

}  // namespace
}  // namespace railyard
