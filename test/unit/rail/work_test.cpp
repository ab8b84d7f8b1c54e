#include "rail/work.h"

#include <gtest/gtest.h>

#include <thread>

namespace railyard {
namespace {

TEST(Work, EveryChunkIsTakenOnceByManyTakers) {
    Work work;
    work.chunks.resize(10'007);
    Lane& lane = work.lanes.emplace_back(work, 0, 10'007);
    for (int round = 0; round < 3; ++round) {
        work.arm(4, nullptr);
        std::vector<std::atomic<int>> taken(work.chunks.size());
        std::vector<std::thread> takers;
        for (int t = 0; t < 4; ++t) {
            takers.emplace_back([&] {
                for (railyard::Run run = lane.take_run(16); !run.empty(); run = lane.take_run(16)) {
                    EXPECT_LE(run.size(), 16u);
                    for (std::uint32_t i = run.begin; i < run.end; ++i) {
                        taken[i].fetch_add(1);
                        work.part_done(Status::ok);
                    }
                }
                work.part_done(Status::ok);
            });
        }
        for (std::thread& taker : takers)
            taker.join();
        EXPECT_TRUE(work.done());
        EXPECT_EQ(work.status(), Status::ok);
        for (const auto& count : taken)
            ASSERT_EQ(count.load(), 1);
    }
}

TEST(Work, EachLaneHandsOutItsOwnChunks) {
    Work work;
    work.chunks.resize(10);
    work.lanes.emplace_back(work, 0, 4);
    work.lanes.emplace_back(work, 4, 10);
    for (int round = 0; round < 2; ++round) {
        work.arm(2, nullptr);
        railyard::Run run = work.lanes[0].take_run(16);
        EXPECT_EQ(run.begin, 0u);
        EXPECT_EQ(run.end, 4u);
        EXPECT_TRUE(work.lanes[0].take_run(16).empty());
        run = work.lanes[1].take_run(5);
        EXPECT_EQ(run.begin, 4u);
        EXPECT_EQ(run.end, 9u);
        run = work.lanes[1].take_run(5);
        EXPECT_EQ(run.begin, 9u);
        EXPECT_EQ(run.end, 10u);
        for (int part = 0; part < 12; ++part)
            work.part_done(Status::ok);
        EXPECT_TRUE(work.done());
    }
}

TEST(Work, TheFirstErrorWinsAndEveryPartCounts) {
    Work work;
    work.chunks.resize(2);
    work.arm(1, nullptr);
    work.part_done(Status::remote_disconnect);
    work.part_done(Status::backend);
    EXPECT_FALSE(work.done());
    work.part_done(Status::ok);
    EXPECT_TRUE(work.done());
    EXPECT_EQ(work.status(), Status::remote_disconnect);
    work.arm(1, nullptr);
    EXPECT_EQ(work.status(), Status::ok);
}

/// A watch may have looked at the round before: xfer_timeout_ms.
TEST(Work, AStopOfARoundThatIsOverLeavesTheNextOneAlone) {
    Work work;
    work.arm(1, nullptr);
    const std::uint32_t round = work.round();
    work.part_done(Status::ok);
    work.arm(1, nullptr);
    EXPECT_FALSE(work.stop(Status::canceled, round));
    EXPECT_EQ(work.status(), Status::ok);
    EXPECT_TRUE(work.stop(Status::canceled, work.round()));
    EXPECT_EQ(work.status(), Status::canceled);
    EXPECT_FALSE(work.stop(Status::backend, work.round())) << "the first error stays";
    EXPECT_EQ(work.status(), Status::canceled);
    work.part_done(Status::ok);
    EXPECT_TRUE(work.done());
}

TEST(Work, AHandOverEndsEarlyOnlyWithItsChunkLeft) {
    for (const Work::Tail tail : {Work::Tail{}, Work::Tail{[](Work&) noexcept {}}}) {
        const std::uint32_t tails = tail ? 1 : 0;
        Work work;
        work.chunks.resize(2);
        work.arm(1, tail);
        EXPECT_FALSE(work.end_hand_over_early()) << "another chunk is left";
        EXPECT_EQ(work.parts_left(), 3 + tails);
        work.part_done(Status::ok);
        EXPECT_TRUE(work.end_hand_over_early());
        EXPECT_EQ(work.parts_left(), 1 + tails);
        work.resume_hand_over();
        EXPECT_EQ(work.parts_left(), 2 + tails);
        EXPECT_TRUE(work.end_hand_over_early());
        EXPECT_FALSE(work.end_hand_over_early()) << "twice";
        work.part_done(Status::ok);
        EXPECT_EQ(work.done(), !tail);
    }
}

TEST(Work, WhatOneRailTakesAloneIsTheRestOfTheLane) {
    Work work;
    work.chunks.resize(5);
    Lane& lane = work.lanes.emplace_back(work, 0, 5);
    work.arm(1, nullptr);
    EXPECT_EQ(lane.take_run(2).end, 2u);
    const railyard::Run rest = lane.take_alone();
    EXPECT_EQ(rest.begin, 2u);
    EXPECT_EQ(rest.end, 5u);
    EXPECT_TRUE(lane.take_alone().empty());
    EXPECT_TRUE(lane.take_run(1).empty());
}

int tails = 0;

TEST(Work, TheTailRunsOnceAfterTheDataAndHoldsTheRoundOpen) {
    tails = 0;
    Work work;
    work.chunks.resize(3);
    work.arm(1, [](Work& self) noexcept {
        ++tails;
        EXPECT_FALSE(self.done());
    });
    for (int i = 0; i < 3; ++i)
        work.part_done(Status::ok);
    EXPECT_EQ(tails, 0);
    work.part_done(Status::ok);
    EXPECT_EQ(tails, 1);
    EXPECT_FALSE(work.done());
    work.part_done(Status::ok);
    EXPECT_TRUE(work.done());
    EXPECT_EQ(tails, 1);
}

TEST(Work, AnAbandonedRoundIsOver) {
    Work work;
    work.chunks.resize(3);
    work.arm(2, nullptr);
    work.abandon(Status::invalid_param);
    EXPECT_TRUE(work.done());
    EXPECT_EQ(work.status(), Status::invalid_param);
}

}  // namespace
}  // namespace railyard
