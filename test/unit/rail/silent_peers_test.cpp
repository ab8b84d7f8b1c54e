// What a rail leaves to others of what it may have outstanding, where some peers do not answer (ADR 43).
#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>

#include "rail/fabric_rail.h"
#include "scripted_rail.h"

namespace railyard {
namespace {

/// Peers of one rail, some of which answer nothing that is sent to them.
class SilentPeers : public FabricRailTest {
  protected:
    static constexpr std::uint32_t mebi = 1 << 20;

    /// To the next peer.
    Offer& offer(std::size_t count, std::uint32_t length, bool striped = false) {
        Path& path = paths_.emplace_back();
        path.admit(rail_.sender_generation());
        Path closed;
        Offer& made = offers_.emplace_back(rail_, count, paths_.size(), &closed, length);
        made.route.path = &path;
        made.submission.lane->striped = striped;
        if (length >= mebi) made.submission.lane->run_length = 1;
        rail_.progress();
        return made;
    }
    std::uint64_t posted_to(std::size_t peer) { return script.bytes[peer]; }
    ~SilentPeers() override {
        for (Offer& offer : offers_)
            EXPECT_TRUE(ends(offer));
        for (const Path& path : paths_)
            EXPECT_EQ(path.outstanding(), 0u);
    }

    std::deque<Path> paths_;
    std::deque<Offer> offers_;
};

TEST_F(SilentPeers, LeaveOperationsToOthers) {
    const std::size_t depth = FabricRailProbe::depth(rail_);
    offer(2 * depth, 64);
    EXPECT_EQ(script.posted.size(), 256 - ControlChannel::send_slots) << "as many as the provider says";
    offer(10, 64);
    EXPECT_EQ(posted_to(2), 10u * 64);
    for (int i = 0; i < 10; ++i)
        offer(2 * depth, 64);
    offer(10, 64);
    EXPECT_GE(posted_to(13), 64u);
    for (int i = 0; i < 50; ++i)
        offer(2 * depth, 64);
    offer(10, 64);
    EXPECT_EQ(posted_to(64), 64u) << "one of those that are kept for who has none yet";
}

TEST_F(SilentPeers, LeaveOperationsToOthersWhereTheyHaveALaneToThemselves) {
    const std::size_t depth = FabricRailProbe::depth(rail_);
    Path closed;
    Path& path = paths_.emplace_back();
    path.admit(rail_.sender_generation());
    Offer& made = offers_.emplace_back(rail_, 2 * depth, paths_.size(), &closed);
    made.submission.run = made.submission.lane->take_alone();
    made.route.path = &path;
    rail_.progress();
    EXPECT_EQ(script.posted.size(), 256 - ControlChannel::send_slots);
    offer(10, 64);
    EXPECT_EQ(posted_to(2), 10u * 64);
}

TEST_F(SilentPeers, LeaveBytesToOthers) {
    offer(64, mebi);
    EXPECT_GE(posted_to(1), FabricRail::most_bytes);
    for (int i = 0; i < 50; ++i)
        offer(64, mebi);
    offer(2, mebi);
    EXPECT_GE(posted_to(52), mebi);
}

TEST_F(SilentPeers, LeaveTheRestOfARailToWhatIsStriped) {
    offer(1000, 64, true);
    EXPECT_EQ(script.posted.size(), FabricRail::striped_operations);
    offer(64, 64 * 1024, true);
    EXPECT_GE(posted_to(2), FabricRail::striped_bytes / 2);
    offer(64, mebi);
    offer(64, 64 * 1024, true);
    EXPECT_GE(posted_to(4), mebi);
}

/// What waits with others for their peer's share is out of the way, and no longer than it has to be.
TEST_F(SilentPeers, EndWhatIsStoppedBehindOthersToTheSame) {
    Offer& first = offer(1000, 64);
    Offer second(rail_, 1000, 1, nullptr), third(rail_, 10, 1, nullptr), last(rail_, 10, 1, nullptr);
    for (Offer* offer : {&second, &third, &last})
        offer->route.path = first.route.path;
    rail_.progress();
    const std::size_t posted = script.posted.size();
    third.work.stop(Status::canceled);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!third.work.done() && std::chrono::steady_clock::now() < limit)
        rail_.progress();
    EXPECT_TRUE(third.work.done());
    EXPECT_EQ(script.posted.size(), posted);
    EXPECT_FALSE(second.work.done());
    for (Offer* offer : {&first, &second, &last})
        EXPECT_TRUE(ends(*offer));
    EXPECT_EQ(posted_to(1), 2010u * 64);
}

/// A pass over all finds no room at all, and comes to none of them.
TEST_F(SilentPeers, EndWhatIsStoppedAlsoWhereThereHasBeenNoRoomForAnybody) {
    Offer& first = offer(1000, 64);
    Offer second(rail_, 1000, 1, nullptr);
    second.route.path = first.route.path;
    rail_.progress();
    std::size_t posted = 0;
    while (posted != script.posted.size()) {  // until the last operation has gone
        posted = script.posted.size();
        offer(FabricRailProbe::depth(rail_), 64);
    }
    EXPECT_EQ(posted, FabricRailProbe::depth(rail_));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    rail_.progress();
    script.completed.emplace_back(script.posted.back(), 0);
    script.posted.pop_back();
    rail_.progress();
    second.work.stop(Status::canceled);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!second.work.done() && std::chrono::steady_clock::now() < limit)
        rail_.progress();
    EXPECT_TRUE(second.work.done());
    EXPECT_TRUE(ends(second));
}

struct WaitingNode {
    WaitingNode* next = nullptr;
    PendingList<WaitingNode> behind;
};

/// Until the next look; 10 s: none.
std::chrono::steady_clock::duration until_next_look(WaitingBehind& waiting) {
    const auto begin = std::chrono::steady_clock::now();
    auto now = begin;
    while (!waiting.is_due() && now - begin < std::chrono::seconds(10))
        now = std::chrono::steady_clock::now();
    return now - begin;
}

/// Who stops a transfer gives a rail 20 ms to notice it.
TEST(WaitingBehind, IsLookedAtSoonHoweverLongTheLastLookTook) {
    WaitingBehind waiting;
    PendingList<WaitingNode> kept;
    WaitingNode first;
    std::deque<WaitingNode> others(21);
    waiting.keep(others.back(), &first, kept);
    ASSERT_TRUE(waiting.is_due());
    auto shortest = std::chrono::steady_clock::duration::max();
    for (int look = 0; look < 20; ++look) {  // the machine may stop us
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
        waiting.keep(others[look], &first, kept);
        waiting.looked(true, false);
        shortest = std::min(shortest, until_next_look(waiting));
    }
    EXPECT_LT(shortest, std::chrono::milliseconds(15));
}

TEST(WaitingBehind, IsLookedAtAgainWhereTheLastLookWasNotOverAll) {
    WaitingBehind waiting;
    PendingList<WaitingNode> kept;
    WaitingNode first, second;
    waiting.keep(second, &first, kept);
    ASSERT_TRUE(waiting.is_due());
    waiting.looked(false, false);
    EXPECT_LT(until_next_look(waiting), std::chrono::seconds(5));
    waiting.looked(false, true);
    EXPECT_TRUE(waiting.is_due()) << "the same pass goes on";
    waiting.looked(true, false);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_FALSE(waiting.is_due()) << "nothing waits behind anything";
}

/// It waits for nothing that the others to the same peer wait for.
TEST_F(SilentPeers, WhatHasItsShareOfALaneOutLetsThoseBehindItGoOn) {
    Offer& first = offer(FabricRail::striped_operations, 64, true);
    Path closed;
    Offer large(rail_, 1000, 1, &closed), small(rail_, 1, 1, &closed);
    large.submission.lane->striped = true;
    large.submission.lane->share = 4;
    for (Offer* offer : {&large, &small})
        offer->route.path = first.route.path;
    for (int pass = 0; pass < 2; ++pass)  // one of them is over all that waits
        rail_.progress();
    ASSERT_EQ(script.posted.size(), FabricRail::striped_operations);
    const auto end_one = [this] {
        script.completed.emplace_back(script.posted.front(), 0);
        script.posted.erase(script.posted.begin());
    };
    for (int i = 0; i < 10; ++i)
        end_one();
    rail_.progress();
    EXPECT_EQ(posted_to(1), (FabricRail::striped_operations + 4 + 1) * 64);
    while (script.posted.size() > 5)  // those of the first one
        end_one();
    rail_.progress();
    EXPECT_TRUE(first.work.done());
    Offer next(rail_, 1, 1, &closed);
    next.route.path = first.route.path;
    end_one();
    rail_.progress();
    EXPECT_EQ(posted_to(1), (FabricRail::striped_operations + 5 + 2) * 64) << "and goes on itself";
    for (Offer* offer : {&large, &small, &next})
        EXPECT_TRUE(ends(*offer));
}

TEST_F(SilentPeers, TransfersToOneTakeTurnsAtItsShare) {
    Offer& large = offer(64, mebi);
    Offer small(rail_, 64 * 16, 1, nullptr, 64 * 1024);
    small.route.path = large.route.path;
    for (int i = 0; i < 24; ++i) {
        ASSERT_FALSE(script.posted.empty());
        script.completed.emplace_back(script.posted.front(), 0);
        script.posted.erase(script.posted.begin());
        rail_.progress();
    }
    const auto left = [&] { return large.work.parts_left() + small.work.parts_left() / 16; };
    while (left() > 80) {
        script.completed.emplace_back(script.posted.front(), 0);
        script.posted.erase(script.posted.begin());
        rail_.progress();
    }
    EXPECT_GT(large.work.parts_left() + 20, small.work.parts_left() / 16) << "MiB";
    EXPECT_GT(small.work.parts_left() / 16 + 32, large.work.parts_left()) << "MiB";
    EXPECT_TRUE(ends(small));
}

TEST_F(SilentPeers, AndThoseThatAnswerHaveTheSameShare) {
    offer(64, mebi);
    const std::uint64_t alone = posted_to(1);
    offer(64 * 16, 64 * 1024);
    while (posted_to(1) + posted_to(2) < 100 * std::uint64_t{mebi}) {
        ASSERT_FALSE(script.posted.empty());
        script.completed.emplace_back(script.posted.front(), 0);  // one at a time, the oldest first
        script.posted.erase(script.posted.begin());
        rail_.progress();
    }
    EXPECT_LE(posted_to(1), posted_to(2) + alone + 4 * mebi);
    EXPECT_GE(posted_to(1) + 4 * mebi, posted_to(2));
}

}  // namespace
}  // namespace railyard
