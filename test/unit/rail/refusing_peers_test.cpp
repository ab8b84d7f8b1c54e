// Peers that do not take what is posted to them, or not yet.
#include "scripted_rail.h"

namespace railyard {
namespace {

TEST_F(FabricRailTest, APeerThatBlocksDoesNotHoldUpAnother) {
    script.answers = {-FI_EAGAIN};
    Offer blocked(rail_, 4, 1);
    EXPECT_TRUE(script.posted.empty());
    script.answers = {-FI_EAGAIN};
    Offer free(rail_, 4, 2);
    EXPECT_EQ(script.posted.size(), 4u);
    complete_all();
    script.answers = {-FI_EAGAIN};
    rail_.progress();
    EXPECT_TRUE(free.work.done());
    EXPECT_FALSE(blocked.work.done());
    rail_.progress();
    complete_all();
    rail_.progress();
    EXPECT_TRUE(blocked.work.done());
}

TEST_F(FabricRailTest, ManyPeersThatBlockDoNotHoldUpAnother) {
    std::deque<Offer> blocked;
    for (PeerAddress peer = 1; peer <= 40; ++peer) {
        script.silent.insert(peer);
        blocked.emplace_back(rail_, 4, peer);
    }
    Offer free(rail_, 4, 41);
    EXPECT_EQ(script.posted.size(), 4u);
    script.silent.clear();
    for (int round = 0; round < 10; ++round) {
        rail_.progress();
        complete_all();
    }
    EXPECT_TRUE(std::all_of(blocked.begin(), blocked.end(), [](Offer& offer) { return offer.work.done(); }));
}

TEST_F(FabricRailTest, APeerThatTakesNothingIsGivenUpInTime) {
    script.answers.assign(1'000'000, -FI_EAGAIN);
    Offer offer(rail_, 100, 1);
    const auto start = std::chrono::steady_clock::now();
    while (!offer.work.done() && std::chrono::steady_clock::now() - start < std::chrono::seconds(5))
        rail_.progress();
    EXPECT_TRUE(offer.work.done());
    EXPECT_EQ(offer.work.status(), Status::remote_disconnect);
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::nanoseconds(give_up_ns));
    EXPECT_FALSE(rail_.has_work());
}

TEST_F(FabricRailTest, WhatWaitsForAPeerIsGivenUpTogether) {
    script.silent = {1};
    std::deque<Offer> offers;
    for (int i = 0; i < 10; ++i)
        offers.emplace_back(rail_, 4, 1);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!offers.front().work.done() && std::chrono::steady_clock::now() < limit)
        rail_.progress();
    for (Offer& offer : offers) {
        EXPECT_TRUE(offer.work.done());
        EXPECT_EQ(offer.work.status(), Status::remote_disconnect);
    }
}

TEST_F(FabricRailTest, WhatAPeerDoesNotTakeOnOnePathGoesOverAnother) {
    script.silent = {1};
    Path refusing, taking;
    Work work;
    work.chunks.assign(20, Chunk{0, 0, 64, 0, 0});
    work.lanes.emplace_back(work, 0, 20);
    const std::array<Route, 2> routes{Route{&rail_, 1, &refusing, false, {nullptr}, {{}}},
                                      Route{&rail_, 2, &taking, false, {nullptr}, {{}}}};
    Submission submission;
    submission.lane = &work.lanes.front();
    submission.route = &routes[0];
    submission.alternatives = routes;
    work.arm(1, nullptr);
    rail_.submit(submission);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!work.done() && std::chrono::steady_clock::now() < limit) {
        complete_all();
        rail_.progress();
    }
    EXPECT_TRUE(work.done());
    EXPECT_EQ(work.status(), Status::ok);
    EXPECT_TRUE(refusing.failed());
    EXPECT_EQ(script.bytes[2], 20u * 64);
}

TEST_F(FabricRailTest, NothingIsPostedBeforeTheGateOpens) {
    Path gate;
    Offer gated(rail_, 4, 1, &gate);
    Offer other(rail_, 2, 2);
    EXPECT_EQ(script.posted.size(), 2u);
    EXPECT_TRUE(rail_.has_work());
    gate.admit(rail_.sender_generation());
    rail_.progress();
    EXPECT_EQ(script.posted.size(), 6u);
    complete_all();
    rail_.progress();
    EXPECT_TRUE(gated.work.done());
    EXPECT_EQ(gated.work.status(), Status::ok);
}

TEST_F(FabricRailTest, AGateThatNeverOpensEndsTheTransfer) {
    Path gate;
    Offer offer(rail_, 4, 1, &gate);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!offer.work.done() && std::chrono::steady_clock::now() < limit)
        rail_.progress();
    EXPECT_TRUE(offer.work.done());
    EXPECT_EQ(offer.work.status(), Status::remote_disconnect);
    EXPECT_TRUE(script.posted.empty());
}

}  // namespace
}  // namespace railyard
