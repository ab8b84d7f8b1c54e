// Several chunks in one operation, where the provider takes them.
#include "scripted_rail.h"

namespace railyard {
namespace {

using Pieces = std::vector<std::size_t>;

class GroupedRailTest : public FabricRailTest {
  protected:
    GroupedRailTest() : FabricRailTest(4) {}
};

TEST_F(GroupedRailTest, SmallChunksShareAnOperation) {
    const Offer offer(rail_, 10, 1);
    EXPECT_EQ(script.pieces, (Pieces{4, 4, 2}));
    EXPECT_EQ(script.flags.front() & FI_MORE, FI_MORE);
    EXPECT_EQ(script.flags.back() & FI_MORE, 0u);
    complete_all();
    rail_.progress();
    EXPECT_TRUE(offer.work.done());
    EXPECT_EQ(offer.work.status(), Status::ok);
    const RailCounters counters = rail_.counters();
    EXPECT_EQ(counters.operations[static_cast<std::size_t>(Work::Kind::write)], 10u);
    EXPECT_EQ(counters.bytes[static_cast<std::size_t>(Work::Kind::write)], 640u);
    EXPECT_EQ(rail_.load(), 0u);
}

/// Chunks count against the queue's depth, not operations: there are free ones when it is full.
TEST_F(GroupedRailTest, NothingOfALaneIsLeftBehindWhenTheQueueIsFull) {
    const std::size_t depth = FabricRailProbe::depth(rail_);
    const Offer offer(rail_, 3 * depth, 1);
    EXPECT_EQ(script.bytes[1], 64 * depth);
    EXPECT_TRUE(ends(offer));
    EXPECT_EQ(script.bytes[1], 64 * 3 * depth);
}

TEST_F(GroupedRailTest, LongChunksHaveOperationsOfTheirOwn) {
    const Offer longest(rail_, 5, 1, nullptr, FabricRail::grouped_chunk_bytes);
    EXPECT_EQ(script.pieces, (Pieces{4, 1}));
    EXPECT_TRUE(ends(longest));
    script.pieces.clear();
    const Offer longer(rail_, 2, 1, nullptr, FabricRail::grouped_chunk_bytes + 1);
    EXPECT_EQ(script.pieces, (Pieces{1, 1}));
    EXPECT_TRUE(ends(longer));
    EXPECT_EQ(script.bytes[1], FabricRail::grouped_chunk_bytes * 7 + 2);
}

TEST_F(GroupedRailTest, AGroupThatIsRefusedIsPostedLaterAndOnce) {
    script.answers = {0, -FI_EAGAIN};
    Offer offer(rail_, 10, 1);
    EXPECT_TRUE(ends(offer));
    EXPECT_EQ(offer.work.status(), Status::ok);
    EXPECT_EQ(script.bytes[1], 640u);
}

TEST_F(GroupedRailTest, AnErrorEndsEveryChunkOfItsGroup) {
    const Offer offer(rail_, 10, 1);
    complete_all(FI_EIO);
    for (int i = 0; i < 10 && !offer.work.done(); ++i)
        rail_.progress();
    EXPECT_TRUE(offer.work.done());
    EXPECT_EQ(offer.work.status(), Status::backend);
    EXPECT_EQ(offer.submission.outstanding, 0u);
    EXPECT_EQ(rail_.load(), 0u);
}

TEST_F(GroupedRailTest, EveryChunkOfAGroupGoesAnotherWay) {
    Detour detour(rail_, rail_, 2, 10);
    detour.post();
    ASSERT_EQ(script.bytes[1], 640u);
    complete_all(FI_ECONNRESET);
    for (int i = 0; i < 100 && !detour.work.done(); ++i) {
        rail_.progress();
        complete_all();
    }
    EXPECT_TRUE(detour.work.done());
    EXPECT_EQ(detour.work.status(), Status::ok);
    EXPECT_EQ(script.bytes[2], 640u);
}

/// Eight chunks of one block, and two of another one.
class UndividedTest : public GroupedRailTest {
  protected:
    static constexpr std::uint32_t length = 128 << 10;

    UndividedTest() {
        for (std::uint32_t i = 0; i < 10; ++i)
            work_.chunks.push_back(
                {(i < 8 ? i : i + 1) * std::uint64_t{length}, i * std::uint64_t{length}, length, 0, 0});
        Lane& lane = work_.lanes.emplace_back(work_, 0, 10);
        lane.striped = true;
        lane.run_length = 2;
        lane.share = 4;
        submission_.lane = &lane;
        submission_.route = &route_;
    }
    void offer(bool undivided) {
        work_.arm(1, nullptr);
        submission_.rearm();
        if (undivided) {
            submission_.undivided = true;
            submission_.share = UINT32_MAX;
            submission_.run = work_.lanes.front().take_alone();
        }
        rail_.submit(submission_);
    }

    Route route_{&rail_, 1, nullptr, false, {nullptr}, {{}}};
    Work work_;
    Submission submission_;
};

TEST_F(UndividedTest, ARailWithAStripedLaneToItselfPostsWholeBlocks) {
    offer(true);
    EXPECT_EQ(script.pieces, (Pieces{1, 1}));
    EXPECT_EQ(script.bytes[1], std::uint64_t{10} * length);
    complete_all();
    rail_.progress();
    EXPECT_TRUE(work_.done());
    EXPECT_EQ(work_.status(), Status::ok);
    EXPECT_EQ(rail_.counters().bytes[static_cast<std::size_t>(Work::Kind::write)],
              std::uint64_t{10} * length);
    EXPECT_EQ(rail_.load(), 0u);
}

/// Run by run, so that what others have comes in between.
TEST_F(UndividedTest, WhereMuchIsUnderWayABlockComesInRuns) {
    work_.arm(1, nullptr);
    submission_.rearm();
    submission_.undivided = true;
    submission_.share = UINT32_MAX;
    rail_.submit(submission_);
    EXPECT_EQ(script.pieces, Pieces(5, 1));
    EXPECT_EQ(script.bytes[1], std::uint64_t{10} * length);
    complete_all();
    rail_.progress();
    EXPECT_TRUE(work_.done());
    EXPECT_EQ(rail_.load(), 0u);
}

TEST_F(UndividedTest, ChunksWithImmediatesStayApart) {
    work_.immediate = 7;
    offer(true);
    EXPECT_EQ(script.pieces, Pieces(10, 1));
    EXPECT_EQ(script.immediates, (std::vector<std::uint64_t>{7, 8, 9, 10, 11, 12, 13, 14, 15, 16}));
    complete_all();
    rail_.progress();
    EXPECT_TRUE(work_.done());
}

TEST_F(UndividedTest, OneAmongOthersPostsItsShareInChunks) {
    offer(false);
    EXPECT_EQ(script.pieces, (Pieces{1, 1, 1, 1}));
    for (int i = 0; i < 10 && !work_.done(); ++i) {
        complete_all();
        rail_.progress();
    }
    EXPECT_TRUE(work_.done());
    EXPECT_EQ(script.pieces.size(), 10u);
}

TEST_F(UndividedTest, AnErrorOfABlockEndsEachOfItsChunks) {
    offer(true);
    complete_all(FI_EIO);
    for (int i = 0; i < 10 && !work_.done(); ++i)
        rail_.progress();
    EXPECT_TRUE(work_.done());
    EXPECT_EQ(work_.status(), Status::backend);
    EXPECT_EQ(rail_.load(), 0u);
}

/// In its chunks: what is handed on goes as it would have among others.
TEST_F(UndividedTest, ABlockWhosePathFailsGoesAnotherWay) {
    Path usual, other;
    const std::array<Route, 2> routes{Route{&rail_, 1, &usual, false, {nullptr}, {{}}},
                                      Route{&rail_, 2, &other, false, {nullptr}, {{}}}};
    submission_.route = routes.data();
    submission_.alternatives = routes;
    offer(true);
    ASSERT_EQ(script.bytes[1], std::uint64_t{10} * length);
    script.pieces.clear();
    complete_all(FI_ECONNRESET);
    for (int i = 0; i < 100 && !work_.done(); ++i) {
        rail_.progress();
        complete_all();
    }
    EXPECT_TRUE(work_.done());
    EXPECT_EQ(work_.status(), Status::ok);
    EXPECT_EQ(script.bytes[2], std::uint64_t{10} * length);
    EXPECT_EQ(script.pieces, Pieces(10, 1));
    EXPECT_TRUE(usual.failed());
    EXPECT_FALSE(other.failed());
    EXPECT_EQ(rail_.load(), 0u);
}

TEST_F(GroupedRailTest, EachChunkWithAnImmediateIsByItself) {
    Offer offer(rail_, 0, 1);
    ASSERT_TRUE(ends(offer));
    Work work;
    work.immediate = 7;
    work.chunks.assign(3, Chunk{0, 0, 64, 0, 0});
    work.lanes.emplace_back(work, 0, 3);
    Submission submission;
    submission.lane = &work.lanes.front();
    submission.route = &offer.route;
    work.arm(1, nullptr);
    rail_.submit(submission);
    EXPECT_EQ(script.pieces, (Pieces{1, 1, 1}));
    EXPECT_EQ(script.immediates, (std::vector<std::uint64_t>{7, 8, 9}));
    complete_all();
    rail_.progress();
    EXPECT_TRUE(work.done());
}

}  // namespace
}  // namespace railyard
