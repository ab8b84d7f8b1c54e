// The rail against a scripted provider: libfabric's calls go through tables of the endpoint and the queue,
// which the tests replace. Nothing here touches a network.
#include "rail/fabric_rail.h"

#include <numeric>

#include "scripted_rail.h"

namespace railyard {
namespace {

ssize_t swallowed_send(fid_ep*, const fi_msg*, std::uint64_t) {
    return 0;
}

/// A message without end. Its owner links it into a list of its own when it is done, as the engine does.
struct EndlessMessage : OutMessage {
    EndlessMessage() {
        fill = [](OutMessage&, std::span<std::byte>) noexcept { return std::size_t{1}; };
        advance = [](OutMessage&) noexcept { return true; };
        done = [](OutMessage& message, Status outcome) noexcept {
            auto& self = static_cast<EndlessMessage&>(message);
            ++self.ends;
            self.result = outcome;
            self.next = nullptr;
        };
    }
    int ends = 0;
    Status result = Status::ok;
};

TEST_F(FabricRailTest, ARunIsOneBatchWithItsDoorbellAtTheEnd) {
    Offer offer(rail_, 40, 1);
    ASSERT_EQ(script.flags.size(), 40u);
    for (std::size_t i = 0; i < 40; ++i) {
        const bool last_of_run = i == 15 || i == 31 || i == 39;
        EXPECT_EQ((script.flags[i] & FI_MORE) == 0, last_of_run) << i;
        EXPECT_NE(script.flags[i] & FI_DELIVERY_COMPLETE, 0u);
    }
    EXPECT_FALSE(offer.work.done());
    complete_all();
    rail_.progress();
    EXPECT_TRUE(offer.work.done());
    EXPECT_EQ(offer.work.status(), Status::ok);
    EXPECT_FALSE(rail_.has_work());
}

TEST_F(FabricRailTest, OnePieceIsPostedAtOnceAndEnds) {
    Offer offer(rail_, 1, 1);
    ASSERT_EQ(script.flags.size(), 1u);
    EXPECT_EQ(script.flags[0] & FI_MORE, 0u);
    EXPECT_EQ(rail_.load(), 1u);
    EXPECT_EQ(rail_.bytes_under_way(), 64u);
    EXPECT_FALSE(offer.work.done());
    complete_all();
    rail_.progress();
    EXPECT_TRUE(offer.work.done());
    EXPECT_EQ(offer.work.status(), Status::ok);
    EXPECT_EQ(rail_.load(), 0u);
    EXPECT_EQ(rail_.bytes_carried(), 64u);
}

TEST_F(FabricRailTest, OnePieceThatIsRefusedIsPostedLaterAndOnce) {
    script.answers = {-FI_EAGAIN, -FI_EAGAIN};
    Offer offer(rail_, 1, 1);
    EXPECT_TRUE(script.posted.empty());
    EXPECT_TRUE(rail_.has_work());
    EXPECT_TRUE(ends(offer));
    EXPECT_EQ(offer.work.status(), Status::ok);
    EXPECT_EQ(script.bytes[1], 64u);
}

TEST_F(FabricRailTest, OnePieceDoesNotOvertakeWhatWaits) {
    const std::size_t depth = FabricRailProbe::depth(rail_);
    Offer many(rail_, depth + 4, 1);
    ASSERT_EQ(script.posted.size(), depth);
    Offer one(rail_, 1, 2);
    script.completed.emplace_back(script.posted.front(), 0);
    rail_.progress();
    EXPECT_EQ(script.bytes[2], 0u);
    EXPECT_EQ(script.bytes[1], (depth + 1) * 64);
    EXPECT_TRUE(ends(many));
    EXPECT_TRUE(ends(one));
}

TEST_F(FabricRailTest, OnePieceToAPeerThatTakesNothingIsNotTriedBeforeWhatWaitsForIt) {
    script.silent = {1};
    Offer many(rail_, 4, 1);
    Offer one(rail_, 1, 1);
    EXPECT_LE(script.flags.size(), 2u) << "the first of `many`, perhaps twice";
    script.silent.clear();
    EXPECT_TRUE(ends(many));
    EXPECT_TRUE(ends(one));
}

TEST_F(FabricRailTest, OnePieceIsPostedOnceInEachRound) {
    Detour detour(rail_, rail_, 2, 1);
    for (std::uint64_t round = 1; round <= 3; ++round) {
        detour.post();
        EXPECT_EQ(script.bytes[1], round * 64);
        complete_all();
        rail_.progress();
        EXPECT_TRUE(detour.work.done());
    }
}

TEST_F(FabricRailTest, OnePieceOfAWorkThatWasStoppedIsNotPosted) {
    script.silent = {1};
    Offer offer(rail_, 1, 1);
    offer.work.stop(Status::canceled);
    script.silent.clear();
    EXPECT_TRUE(ends(offer));
    EXPECT_EQ(offer.work.status(), Status::canceled);
    EXPECT_EQ(script.bytes[1], 0u);
}

TEST_F(FabricRailTest, ASlowRailTakesAPartOfWhatIsLeftAndLeavesTheEndToOthers) {
    Detour detour(rail_, rail_, 2);
    Lane& lane = detour.work.lanes.front();
    detour.work.arm(1, nullptr);
    detour.submission.rearm();
    detour.submission.share = 6;
    detour.submission.part_of_rest = Submission::whole / 4;
    rail_.submit(detour.submission);
    EXPECT_EQ(script.bytes[1], 5u * 64);
    for (int i = 0; i < 20 && rail_.has_work(); ++i) {
        complete_all();
        rail_.progress();
    }
    EXPECT_FALSE(rail_.has_work()) << "it does not wait for what others do";
    EXPECT_FALSE(detour.work.done());
    const auto rest = lane.take_run(20);
    EXPECT_EQ(rest.size(), 2u);
    for (std::uint32_t i = 0; i < rest.size(); ++i)
        detour.work.part_done(Status::ok);
    EXPECT_TRUE(detour.work.done());
}

TEST_F(FabricRailTest, AShareOfItsOwnGoesBeforeTheLanes) {
    Detour detour(rail_, rail_, 2);
    detour.work.lanes.front().share = 2;
    detour.work.arm(1, nullptr);
    detour.submission.rearm();
    detour.submission.share = 7;
    rail_.submit(detour.submission);
    EXPECT_EQ(script.bytes[1], 7u * 64);
    for (int i = 0; i < 20 && !detour.work.done(); ++i) {
        complete_all();
        rail_.progress();
    }
    EXPECT_TRUE(detour.work.done());
}

TEST_F(FabricRailTest, ItsRateIsMeasuredWhileMuchIsUnderWay) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    const auto end_one = [this] {
        script.completed.emplace_back(script.posted.front(), 0);
        script.posted.erase(script.posted.begin());
        rail_.progress();
    };
    EXPECT_EQ(rail_.measured_rate().samples, 0u);
    while (rail_.measured_rate().samples == 0 && std::chrono::steady_clock::now() < limit) {
        Offer offer(rail_, 20, 1, nullptr, 64 << 10);
        while (!script.posted.empty())
            end_one();
        ASSERT_TRUE(offer.work.done());
    }
    EXPECT_GT(rail_.measured_rate().bytes_per_second, 0u);
    const std::uint32_t samples = rail_.measured_rate().samples;
    for (int i = 0; i < 1'000; ++i) {
        Offer small(rail_, 1, 1);
        end_one();
        ASSERT_TRUE(small.work.done());
    }
    EXPECT_EQ(rail_.measured_rate().samples, samples) << "small operations say nothing of it";
}

/// As tcp of libfabric 1.17 does of a READ whose connection breaks under it.
TEST_F(FabricRailTest, AnOperationThatEndsTwiceCountsOnce) {
    Offer offer(rail_, 2, 1);
    ASSERT_EQ(script.posted.size(), 2u);
    script.completed.emplace_back(script.posted.front(), FI_ECANCELED);
    script.completed.emplace_back(script.posted.front(), FI_ECANCELED);
    rail_.progress();
    EXPECT_FALSE(offer.work.done());
    EXPECT_EQ(offer.work.parts_left(), 1u);
    EXPECT_EQ(rail_.load(), 1u);
    script.completed.emplace_back(script.posted.back(), 0);
    rail_.progress();
    EXPECT_TRUE(offer.work.done());
    EXPECT_EQ(offer.work.status(), Status::remote_disconnect);
}

TEST_F(FabricRailTest, EagainKeepsTheRunAndLosesNothing) {
    script.answers = {0, 0, -FI_EAGAIN};
    Offer offer(rail_, 10, 1);
    const std::size_t first = script.posted.size();
    EXPECT_EQ(first, 2u);
    script.answers = {-FI_EAGAIN};
    rail_.progress();
    EXPECT_EQ(script.posted.size(), 2u);
    rail_.progress();
    EXPECT_EQ(script.posted.size(), 10u);
    complete_all();
    rail_.progress();
    EXPECT_TRUE(offer.work.done());
    EXPECT_EQ(offer.work.status(), Status::ok);
}

TEST_F(FabricRailTest, EachChunkBringsItsOwnImmediateAlsoWhereARunWasRefused) {
    script.answers = {0, 0, -FI_EAGAIN, 0, -FI_EAGAIN};
    Detour detour(rail_, rail_, 2, 40);
    detour.work.immediate = 1000;
    detour.post();
    for (int i = 0; i < 4; ++i)
        rail_.progress();
    std::vector<std::uint64_t> expected(40);
    std::iota(expected.begin(), expected.end(), 1000);
    EXPECT_EQ(script.immediates, expected);
    complete_all();
    rail_.progress();
    EXPECT_TRUE(detour.work.done());
}

TEST_F(FabricRailTest, TheQueueIsNeverOverrun) {
    const std::size_t depth = FabricRailProbe::depth(rail_);
    Offer offer(rail_, 3 * depth, 1);
    EXPECT_EQ(script.posted.size(), depth);
    EXPECT_EQ(script.flags.back() & FI_MORE, 0u) << "a batch left open without a credit for its next";
    std::size_t total = depth;
    while (!offer.work.done() && total < 10 * depth) {
        complete_all();
        rail_.progress();
        EXPECT_LE(script.posted.size(), depth);
        total += script.posted.size();
    }
    EXPECT_TRUE(offer.work.done());
}

TEST_F(FabricRailTest, AnErrorEndsItsTransferAndStopsTheRest) {
    const std::size_t depth = FabricRailProbe::depth(rail_);
    Offer failing(rail_, 2 * depth, 1);
    script.completed.emplace_back(script.posted.front(), FI_EIO);
    script.posted.erase(script.posted.begin());
    complete_all();
    rail_.progress();
    for (int i = 0; i < 100 && !failing.work.done(); ++i)
        rail_.progress();
    EXPECT_TRUE(failing.work.done());
    EXPECT_EQ(failing.work.status(), Status::backend);
    EXPECT_LE(script.flags.size(), depth + 64) << "posted on after the error";
    Offer next(rail_, 4, 1);
    complete_all();
    rail_.progress();
    EXPECT_EQ(next.work.status(), Status::ok);
}

TEST_F(FabricRailTest, AFailingPostFailsItsTransferOnly) {
    constexpr int never_seen = 98'765;  // of a library to come
    for (const int error : {FI_EINVAL, never_seen}) {
        script.answers = {-error};
        Offer bad(rail_, 3, 1);
        complete_all();
        rail_.progress();
        EXPECT_TRUE(bad.work.done()) << error;
        EXPECT_EQ(bad.work.status(), Status::backend) << error;
        EXPECT_FALSE(rail_.has_work()) << error;
        Offer good(rail_, 3, 1);
        complete_all();
        rail_.progress();
        EXPECT_TRUE(good.work.done()) << error;
        EXPECT_EQ(good.work.status(), Status::ok) << error;
    }
}

TEST_F(FabricRailTest, OnePieceWhosePostFailsCountsOnce) {
    script.answers = {-FI_EINVAL, -FI_EINVAL};
    Offer bad(rail_, 1, 1);
    EXPECT_TRUE(bad.work.done());
    EXPECT_EQ(bad.work.status(), Status::backend);
    EXPECT_EQ(rail_.counters().failed, 1u);
    script.answers = {-FI_EINVAL};
    Offer good(rail_, 1, 1);
    EXPECT_TRUE(ends(good));
    EXPECT_EQ(good.work.status(), Status::ok);
    EXPECT_EQ(rail_.counters().failed, 1u) << "it was posted after all";
}

TEST_F(FabricRailTest, AnErrorWithoutContextIsSurvived) {
    script.completed.emplace_back(nullptr, FI_EIO);
    Offer offer(rail_, 1, 1);
    complete_all();
    rail_.progress();
    EXPECT_EQ(offer.work.status(), Status::ok);
    EXPECT_TRUE(offer.work.done());
}

TEST_F(FabricRailTest, AStripedTransferDoesNotRunAheadOnOneRail) {
    Work work;
    work.chunks.assign(1000, Chunk{0, 0, 64, 0, 0});
    work.lanes.emplace_back(work, 0, 1000);
    work.lanes.front().striped = true;
    const Route route{&rail_, 1, nullptr, false, {nullptr}, {{}}};
    Submission submission;
    submission.lane = &work.lanes.front();
    submission.route = &route;
    work.arm(1, nullptr);
    rail_.submit(submission);
    EXPECT_EQ(script.posted.size(), FabricRail::striped_operations);
    for (int i = 0; i < 1000 && !work.done(); ++i) {
        complete_all();
        rail_.progress();
    }
    EXPECT_TRUE(work.done());
}

TEST_F(FabricRailTest, ARailTakesItsShareOfALaneAndMoreOnlyForWhatHasEnded) {
    Offer none(rail_, 1, 1);  // keeps the rail busy with something else meanwhile
    Work work;
    work.chunks.assign(10, Chunk{0, 0, 64, 0, 0});
    Lane& lane = work.lanes.emplace_back(work, 0, 10);
    lane.striped = true;
    lane.share = 3;
    const Route route{&rail_, 2, nullptr, false, {nullptr}, {{}}};
    Submission submission;
    submission.lane = &lane;
    submission.route = &route;
    work.arm(1, nullptr);
    rail_.submit(submission);
    EXPECT_EQ(script.posted.size(), 1u + 3u);
    script.completed.emplace_back(script.posted.back(), 0);
    script.posted.pop_back();
    rail_.progress();
    EXPECT_EQ(script.posted.size(), 1u + 3u);
    for (int i = 0; i < 20 && !work.done(); ++i) {
        complete_all();
        rail_.progress();
    }
    EXPECT_TRUE(work.done());
}

TEST_F(FabricRailTest, TransfersTakeTurnsByBytesWhateverTheirChunks) {
    constexpr std::uint64_t mebi = 1 << 20;
    Offer large(rail_, 64, 1, nullptr, mebi);
    large.submission.lane->run_length = 1;  // as it is cut
    Offer small(rail_, 64 * 256, 2, nullptr, 4096);
    while (script.bytes[1] + script.bytes[2] < 100 * mebi) {
        ASSERT_FALSE(script.posted.empty());
        script.completed.emplace_back(script.posted.front(), 0);  // one at a time, the oldest first
        script.posted.erase(script.posted.begin());
        rail_.progress();
    }
    // The first had the rail to itself until the second came.
    const std::uint64_t ahead = FabricRail::most_bytes;
    EXPECT_LE(script.bytes[1], script.bytes[2] + ahead + 2 * mebi);
    EXPECT_GE(script.bytes[1] + 2 * mebi, script.bytes[2]);
    while (!large.work.done() || !small.work.done()) {
        complete_all();
        rail_.progress();
    }
}

TEST(FabricRailTeardown, EveryMessageEndsOnceAsCanceled) {
    auto devices = fabric::discover("tcp", fabric::parse_device_filter("lo"));
    NullSink sink;
    std::array<EndlessMessage, 3> messages;  // two fill the send buffers, and the third waits
    fi_ops_msg scripted{};
    {
        FabricRail rail("rail", std::make_shared<const fabric::Device>(std::move(devices.front())), sink, {});
        fid_ep* endpoint = FabricRailProbe::endpoint(rail);
        scripted = *endpoint->msg;
        scripted.sendmsg = swallowed_send;
        endpoint->msg = &scripted;
        for (std::size_t i = 0; i < messages.size(); ++i) {
            messages[i].destination = i % 2;
            rail.send(messages[i]);
        }
        EXPECT_EQ(messages[0].in_flight + messages[1].in_flight, ControlChannel::send_slots);
    }
    for (const EndlessMessage& message : messages) {
        EXPECT_EQ(message.ends, 1);
        EXPECT_EQ(message.result, Status::canceled);
    }
}

}  // namespace
}  // namespace railyard
