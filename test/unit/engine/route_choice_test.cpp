// Shares and rails of a transfer's lanes, over rails that only keep what they are given.
#include "engine/route_choice.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "../stub_rail.h"

namespace railyard {
namespace {

class KeepingRail final : public StubRail {
  public:
    KeepingRail() : StubRail("keeping") {}
    void set_load(std::uint32_t load) { load_.store(load); }
    void set_under_way(std::uint64_t bytes) { bytes_under_way_.store(bytes); }
    std::uint32_t offered = 0;

  private:
    bool serve(bool) noexcept override {
        PendingList<Submission> taken;  // forgotten: the test frees their transfer when it likes
        offered += take_submissions(taken);
        return true;
    }
};

/// One lane over four rails.
class RouteChoiceTest : public testing::Test {
  protected:
    void make(std::uint32_t chunks, bool striped, std::uint32_t run_length = 1) {
        transfer_ = std::make_unique<Transfer>();
        transfer_->chunks.resize(chunks);
        Lane& lane = transfer_->lanes.emplace_back(*transfer_, 0, chunks);
        lane.striped = striped;
        lane.run_length = run_length;
        lane.share = std::max((chunks + 3) / 4, run_length);
        for (std::size_t i = 0; i < rails_.size(); ++i)
            transfer_->routes.push_back({.rail = &rails_[i], .path = &paths_[i]});
        transfer_->submissions.resize(rails_.size());
        for (std::size_t i = 0; i < rails_.size(); ++i) {
            transfer_->submissions[i].lane = &lane;
            transfer_->submissions[i].route = &transfer_->routes[i];
        }
        transfer_->lane_routes = {{0, static_cast<std::uint32_t>(rails_.size())}};
    }
    void offer_all(bool weighted) {
        transfer_->arm(count_submissions(*transfer_), nullptr);
        offer_lanes(*transfer_, {weighted, false});
    }
    std::vector<std::uint32_t> shares(bool weighted = true) {
        offer_all(weighted);
        std::vector<std::uint32_t> all;
        for (std::size_t i = 0; i < rails_.size(); ++i)
            all.push_back(rails_[i].offered ? transfer_->submissions[i].most_outstanding() : 0);
        return all;
    }
    [[nodiscard]] std::vector<std::uint32_t> offers() const {
        std::vector<std::uint32_t> all;
        for (const KeepingRail& rail : rails_)
            all.push_back(rail.offered);
        return all;
    }
    using Numbers = std::vector<std::uint32_t>;

    std::array<Path, 4> paths_;
    std::array<KeepingRail, 4> rails_;
    std::unique_ptr<Transfer> transfer_;
};

TEST_F(RouteChoiceTest, EqualRailsShareAsTheLaneSays) {
    make(64, true, 16);
    EXPECT_EQ(shares(), (Numbers{16, 16, 16, 16}));
}

TEST_F(RouteChoiceTest, ARailAtAQuarterGetsAQuarterOfTheOthersShare) {
    rails_[1].set_weight(64);
    make(64, true, 16);
    EXPECT_EQ(shares(), (Numbers{20, 5, 20, 20}));
}

TEST_F(RouteChoiceTest, NothingGoesWhereOneChunkWouldEndLast) {
    rails_[1].set_weight(64);
    make(4, true);
    EXPECT_EQ(shares(), (Numbers{2, 0, 2, 2}));
    EXPECT_EQ(transfer_->parts_left(), 4u + 3u) << "its hand-over is over";
}

TEST_F(RouteChoiceTest, WeightsCountForNothingInATrial) {
    rails_[1].set_weight(64);
    make(4, true);
    EXPECT_EQ(shares(false), (Numbers{1, 1, 1, 1}));
}

TEST_F(RouteChoiceTest, SharesOfOneRoundAreGoneInTheNext) {
    rails_[1].set_weight(64);
    make(64, true, 16);
    static_cast<void>(shares());
    for (std::uint32_t parts = transfer_->parts_left(); parts > 0; --parts)
        transfer_->part_done(Status::ok);
    rails_[1].set_weight(Rail::full_weight);
    for (KeepingRail& rail : rails_)
        static_cast<void>(rail.counters());
    EXPECT_EQ(shares(), (Numbers{16, 16, 16, 16}));
}

TEST_F(RouteChoiceTest, ASlowRailLeavesTheRestToTheOthers) {
    rails_[1].set_weight(64);
    make(64, true, 16);
    static_cast<void>(shares());
    const Submission& slow = transfer_->submissions[1];
    std::vector<std::uint32_t> most;
    for (std::uint32_t left = transfer_->parts_left(); left > 1; --left) {
        transfer_->part_done(Status::ok);
        if (most.empty() || most.back() != slow.most_outstanding()) most.push_back(slow.most_outstanding());
    }
    EXPECT_EQ(most, (Numbers{5, 4, 3, 2, 1, 0}));
}

TEST_F(RouteChoiceTest, AFailedRailIsNotCounted) {
    paths_[0].fail();
    rails_[0].set_weight(64);
    make(64, true, 16);
    EXPECT_EQ(shares(), (Numbers{0, 16, 16, 16}));
}

TEST_F(RouteChoiceTest, WhereTheFastOnesHaveFailedASlowOneTakesAll) {
    rails_[3].set_weight(64);
    for (std::size_t i = 0; i < 3; ++i)
        paths_[i].fail();
    make(64, true, 16);
    EXPECT_EQ(shares(), (Numbers{0, 0, 0, 16}));
}

TEST_F(RouteChoiceTest, WhereAllHaveFailedAllAreTried) {
    rails_[3].set_weight(64);
    for (Path& path : paths_)
        path.fail();
    make(64, true, 16);
    EXPECT_EQ(shares(), (Numbers{16, 16, 16, 16}));
}

TEST_F(RouteChoiceTest, TheHostRailCarriesAllWhileItCan) {
    make(64, true, 16);
    transfer_->lane_routes[0].host_first = true;
    offer_all(false);
    EXPECT_EQ(offers(), (Numbers{1, 0, 0, 0}));
    EXPECT_EQ(transfer_->parts_left(), 64u + 1u) << "the hand-overs to others are over";
}

TEST_F(RouteChoiceTest, WhereTheHostRailHasFailedTheFabricCarriesAll) {
    paths_[0].fail();
    make(64, true, 16);
    transfer_->lane_routes[0].host_first = true;
    offer_all(false);
    EXPECT_EQ(offers(), (Numbers{0, 1, 1, 1}));
    EXPECT_EQ(transfer_->parts_left(), 64u + 3u);
}

/// The kernel keeps its memory from other processes; the peer is reached all the same.
TEST_F(RouteChoiceTest, WhatTheHostRailCouldNotGetAtIsNotOfferedToItAgain) {
    for (const bool striped : {true, false}) {
        make(64, striped, 16);
        transfer_->lane_routes[0].host_first = true;
        transfer_->submissions[0].kept_from_rail = true;
        offer_all(false);
        EXPECT_EQ(rails_[0].offered, 0u);
        EXPECT_EQ(transfer_->parts_left(), 64u + (striped ? 3u : 1u));
    }
}

TEST_F(RouteChoiceTest, WhereRailsAreBusyOneOfThemCarriesABlock) {
    make(8, true);
    transfer_->lanes[0].undivided_from = 1000;
    rails_[2].set_under_way(400);
    rails_[3].set_under_way(600);
    for (const std::size_t loaded : {0, 2, 3})
        rails_[loaded].set_load(1);
    offer_all(false);
    EXPECT_EQ(offers(), (Numbers{0, 1, 0, 0}));
    EXPECT_TRUE(transfer_->submissions[1].undivided);
    EXPECT_EQ(transfer_->submissions[1].most_outstanding(), UINT32_MAX);
    EXPECT_EQ(transfer_->parts_left(), 8u + 1u) << "the hand-overs to others are over";
    for (std::uint32_t parts = transfer_->parts_left(); parts > 0; --parts)
        transfer_->part_done(Status::ok);
    static_cast<void>(rails_[1].counters());
    rails_[3].set_under_way(599);
    offer_all(false);
    EXPECT_EQ(offers(), (Numbers{1, 2, 1, 1})) << "they have less to do";
    EXPECT_FALSE(transfer_->submissions[1].undivided);
}

/// Two at a time may end together: the next one finds nothing under way, and yet is not alone.
TEST_F(RouteChoiceTest, BlocksStayWholeForAWhileAfterSomeWereBesideOthers) {
    Callers callers;
    const auto post = [&] {
        const Numbers before = offers();
        make(8, true);
        transfer_->lanes[0].undivided_from = 1000;
        transfer_->arm(count_submissions(*transfer_), nullptr);
        offer_lanes(*transfer_, {false, false, &callers});
        std::uint32_t rails = 0;
        for (std::size_t i = 0; i < rails_.size(); ++i)
            rails += rails_[i].offered - before[i];
        return rails;
    };
    EXPECT_EQ(post(), 4u);
    rails_[3].set_under_way(1000);
    EXPECT_EQ(post(), 1u);
    rails_[3].set_under_way(0);
    Numbers next;
    for (std::uint32_t i = 0; i < Callers::blocks_remembered; ++i)
        next.push_back(post());
    EXPECT_EQ(next, (Numbers{1, 1, 1, 4}));
}

TEST_F(RouteChoiceTest, OfAWholeBlockAllIsTakenAtOnceUnlessTooMuchIsUnderWay) {
    for (const bool much : {false, true}) {
        make(8, true);
        transfer_->lanes[0].undivided_from = 0;
        for (KeepingRail& rail : rails_)
            rail.set_under_way(much ? Rail::most_bytes : Rail::most_bytes - 1);
        offer_all(false);
        std::size_t undivided = 0;
        for (const Submission& submission : transfer_->submissions) {
            if (!submission.undivided) continue;
            ++undivided;
            EXPECT_EQ(submission.run.size(), much ? 0u : 8u);
        }
        EXPECT_EQ(undivided, 1u);
    }
}

TEST_F(RouteChoiceTest, ABlockWhoseChunksBringImmediatesIsShared) {
    make(8, true);
    transfer_->lanes[0].undivided_from = 0;
    transfer_->immediate = 7;
    offer_all(false);
    EXPECT_EQ(offers(), (Numbers{1, 1, 1, 1}));
}

TEST_F(RouteChoiceTest, AFailedRailGetsNoWholeBlock) {
    make(8, true);
    transfer_->lanes[0].undivided_from = 0;
    for (std::size_t i = 0; i < 3; ++i)
        paths_[i].fail();
    rails_[3].set_load(9);
    offer_all(false);
    EXPECT_EQ(offers(), (Numbers{0, 0, 0, 1}));
}

TEST_F(RouteChoiceTest, ALaneOverTheRailsOfOneThreadIsSharedAmongThese) {
    constexpr ThreadTag me = 0x1000, other = 0x2000;
    for (std::size_t i = 0; i < rails_.size(); ++i)
        rails_[i].keeper().set(i % 2 ? me : other);
    make(64, true, 16);
    const LaneShares shares(transfer_->submissions, {.weighted = false, .kept_by = me});
    for (std::size_t i = 0; i < rails_.size(); ++i) {
        Submission& submission = transfer_->submissions[i];
        submission.share = 0;
        EXPECT_EQ(shares.give(submission), i % 2 == 1);
        EXPECT_EQ(submission.share, i % 2 ? 32u : 0u);
    }
}

/// Batches of this thread, beside another one that has half of the rails and posts as many.
TEST_F(RouteChoiceTest, WhoPostsItsShareOfBatchesKeepsToItsRails) {
    Callers callers;
    ThreadTag other = 1;
    while (&callers.of(other) == &callers.mine())
        ++other;
    for (std::size_t i = 0; i < 2; ++i)
        rails_[i].keeper().set(other);
    Numbers last;
    const auto post = [&](std::uint64_t block, std::uint64_t by_other) {
        for (std::uint32_t i = 0; i < Callers::batches_per_look + 1; ++i) {
            static_cast<void>(callers.of(other).count_batch(by_other));
            make(64, true, 16);
            transfer_->total_bytes = 64 * block;
            transfer_->arm(count_submissions(*transfer_), nullptr);
            const Numbers before = offers();
            offer_lanes(*transfer_, {false, true, &callers});
            last.clear();
            for (std::size_t rail = 0; rail < rails_.size(); ++rail)
                last.push_back(rails_[rail].offered - before[rail]);
        }
        return last;
    };
    EXPECT_EQ(post(4096, 64 * 4096), (Numbers{0, 0, 1, 1}));
    EXPECT_EQ(transfer_->parts_left(), 64u + 2u);
    EXPECT_EQ(transfer_->keeps_to.load(), this_thread_tag());
    EXPECT_EQ(post(4096, 64), (Numbers{1, 1, 1, 1})) << "the other one's are idle";
    EXPECT_EQ(transfer_->keeps_to.load(), no_thread);
    EXPECT_EQ(post(32 << 10, std::uint64_t{64} << 15), (Numbers{1, 1, 1, 1})) << "not small";
}

/// Programs prepare a handle for each request, and each of those has one round.
TEST_F(RouteChoiceTest, RailsOfAThreadThatHasEndedAreTakenByPostsOfFreshHandlesToo) {
    constexpr ThreadTag ended = 1;
    Callers callers;
    for (std::size_t i = 0; i < 2; ++i)
        rails_[i].keeper().set(ended);
    for (std::uint32_t i = 0; i < 3 * Callers::posts_per_look; ++i) {
        make(1, false);
        transfer_->arm(count_submissions(*transfer_), nullptr);
        offer_lanes(*transfer_, {false, true, &callers});
        std::this_thread::sleep_for(std::chrono::nanoseconds(RailKeeper::patience_ns));
    }
    for (std::size_t i = 0; i < 2; ++i)
        EXPECT_NE(rails_[i].keeper().thread(), ended) << i;
}

/// A path that ends the process where somebody looks at it.
class UntouchablePath {
  public:
    ~UntouchablePath() { munmap(page_, size); }
    [[nodiscard]] Path* get() const { return static_cast<Path*>(page_); }

  private:
    static constexpr std::size_t size = 4096;
    void* page_ = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

/// Their lines go to the thread whose operations write to them and back again: twice the time of a small
/// transfer, where the cores are far apart.
TEST_F(RouteChoiceTest, PathsOfRailsThatOthersKeepAreNotLookedAt) {
    constexpr ThreadTag other = 1;
    Callers callers;
    const UntouchablePath path;
    ASSERT_NE(path.get(), MAP_FAILED);
    for (const bool striped : {false, true}) {
        const auto post = [&] {
            make(striped ? 64 : 1, striped, 16);
            for (std::size_t i = 0; i < 2; ++i)
                transfer_->routes[i].path = path.get();
            transfer_->arm(count_submissions(*transfer_), nullptr);
            const Numbers before = offers();
            offer_lanes(*transfer_, {false, true, &callers});
            EXPECT_EQ(rails_[0].offered + rails_[1].offered, before[0] + before[1]);
        };
        for (std::size_t i = 0; i < 2; ++i)
            rails_[i].keeper().set(other);
        for (std::size_t i = 2; i < 4; ++i)
            rails_[i].keeper().set(this_thread_tag());
        callers.compare(callers.mine(), 1, 1);  // it posts its share
        EXPECT_EXIT(
            {
                for (std::uint32_t i = 1; i < Callers::batches_per_look; ++i)
                    post();
                std::_Exit(HasFailure() ? 1 : 0);
            },
            testing::ExitedWithCode(0), "");
    }
}

/// Between a look at the rails and the hand-over they may all have become slow, or failed.
TEST_F(RouteChoiceTest, SomeRailTakesWhatTheOthersDoNot) {
    rails_[1].set_weight(64);
    make(2, true);
    const LaneShares shares(transfer_->submissions, {.weighted = true});
    for (std::size_t i = 0; i < rails_.size(); ++i) {
        rails_[i].set_weight(32);
        paths_[i].fail();
    }
    std::uint32_t unlimited = 0;
    for (Submission& submission : transfer_->submissions) {
        submission.rearm();
        unlimited += shares.give(submission) && submission.part_of_rest == 0 ? 1 : 0;
    }
    EXPECT_EQ(unlimited, 1u);
}

TEST_F(RouteChoiceTest, ASmallTransferGoesWhereItEndsFirst) {
    make(1, false);
    rails_[0].set_weight(64);
    rails_[2].set_load(1);
    rails_[3].set_load(1);
    offer_all(true);
    EXPECT_EQ(offers(), (Numbers{0, 1, 0, 0}));
    for (KeepingRail& rail : rails_)
        rail.set_load(4);
    rails_[0].set_load(0);
    make(1, false);
    offer_all(true);
    EXPECT_EQ(offers(), (Numbers{1, 1, 0, 0})) << "one there takes as long as four elsewhere";
    make(3, false);
    offer_all(true);
    EXPECT_EQ(offers(), (Numbers{1, 2, 0, 0})) << "three do not";
}

}  // namespace
}  // namespace railyard
