// Senders that are closed when all that they have sent has ended, as on fabric efa.
#include <chrono>
#include <thread>

#include "taking_rail.h"
#include "waits_to_close.h"

namespace railyard {
namespace {

using scripted_control::Message;

TEST_F(WaitsToClose, ASenderIsClosedAtOnceWhereNothingIsUnderWay) {
    const std::uint32_t before = rail_.sender_generation();
    ASSERT_TRUE(rail_.request_renewal());
    rail_.progress();
    EXPECT_NE(rail_.sender_generation(), before);
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 0u);
}

TEST_F(WaitsToClose, WhatIsUnderWayEndsWhereItIsWhileOthersGoOn) {
    Offer slow(rail_, 5, 1);
    const std::vector<void*> old = std::exchange(script.posted, {});
    ASSERT_EQ(old.size(), 5u);
    replace();
    EXPECT_TRUE(script.posted.empty()) << "nothing of it is sent again";
    EXPECT_EQ(rail_.load(), 5u);
    Offer next(rail_, 3, 2);
    EXPECT_EQ(script.posted.size(), 3u);
    EXPECT_EQ(rail_.load(), 8u);
    complete(std::exchange(script.posted, {}));
    EXPECT_TRUE(next.work.done());
    EXPECT_EQ(next.work.status(), Status::ok);
    EXPECT_FALSE(slow.work.done());
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 1u);
    complete(old);
    EXPECT_TRUE(slow.work.done());
    EXPECT_EQ(slow.work.status(), Status::ok);
    EXPECT_EQ(rail_.load(), 0u);
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 0u);
    const RailCounters counters = rail_.counters();
    EXPECT_EQ(counters.operations[0] + counters.operations[1], 8u);
    EXPECT_EQ(counters.bytes[0] + counters.bytes[1], 8u * 64);
}

/// It could land as long as its endpoint is open.
TEST_F(WaitsToClose, WhatHasFailedGoesAnotherWayWhenItsSenderIsClosed) {
    TakingRail other;
    Detour detour(rail_, other, 1, 4);
    detour.post();
    std::vector<void*> old = std::exchange(script.posted, {});
    ASSERT_EQ(old.size(), 4u);
    const std::vector<void*> first{old[0]}, second{old[1]}, rest{old[2], old[3]};
    complete(first, FI_ECONNABORTED);
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 1u);
    script_sender();
    complete(second, FI_ECONNABORTED);
    EXPECT_TRUE(other.taken.empty()) << "while the endpoint that it was sent from is open";
    EXPECT_FALSE(detour.work.done());
    complete(rest);
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 0u);
    EXPECT_EQ(other.taken.size(), 2u);
    EXPECT_TRUE(detour.work.done());
    EXPECT_EQ(detour.work.status(), Status::ok);
}

/// An answer was lost that libfabric does not wait for.
TEST_F(WaitsToClose, WhatIsNotAnsweredByWhoTakesMessagesGoesOutAgain) {
    TakingRail other;
    Detour stuck(rail_, other, 1, 4);
    stuck.post();
    const std::vector<void*> old = std::exchange(script.posted, {});
    ASSERT_EQ(old.size(), 4u);
    replace();
    script_messages();
    send(2, 0);
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 1u) << "that is somebody else";
    EXPECT_TRUE(script.posted.empty());
    send(1, 0);
    expect_again(stuck, other);
}

/// What fails may have been sent before, and so it is a while until that says something.
TEST_F(WaitsToClose, WhatIsNotAnsweredByWhoIsNotThereGoesOutAgainLater) {
    TakingRail other;
    Detour stuck(rail_, other, 1, 4);
    stuck.post();
    ASSERT_EQ(std::exchange(script.posted, {}).size(), 4u);
    replace();
    script_messages();
    send(1, FI_ECONNABORTED);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    rail_.progress();
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 1u) << "it failed too early";
    send(1, FI_ECONNABORTED);
    rail_.progress();
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 1u) << "what was sent later may not have failed yet";
    std::this_thread::sleep_for(std::chrono::milliseconds(1700));
    rail_.progress();
    expect_again(stuck, other);
}

TEST_F(WaitsToClose, MessagesEndWhereTheyAreAndProbesAtOnce) {
    script_messages();
    Message message("message", 1), probe("probe", 1);
    probe.patience_ns = 10'000'000'000;
    rail_.send(message);
    rail_.send(probe);
    ASSERT_EQ(scripted_control::script.sent.size(), 2u);
    const std::vector<void*> old{scripted_control::script.sent[0].context,
                                 scripted_control::script.sent[1].context};
    replace();
    EXPECT_EQ(message.ends, 0);
    EXPECT_EQ(probe.ends, 1);
    EXPECT_TRUE(probe.lost);
    EXPECT_EQ(scripted_control::script.sent.size(), 2u) << "nothing of it is sent again";
    complete({old[0]});
    EXPECT_EQ(message.ends, 1);
    EXPECT_EQ(message.result, Status::ok);
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 1u) << "the probe is still with the provider";
    complete({old[1]});
    EXPECT_EQ(probe.ends, 1);
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 0u);
    EXPECT_EQ(rail_.load(), 0u);
}

/// What messages over the other sender have overtaken, say: it is not lost.
TEST_F(WaitsToClose, AMessageThatHasNotEndedWhenItsSenderIsClosedIsSentAgain) {
    script_messages();
    Message message("text", 1);
    rail_.send(message);
    ASSERT_EQ(scripted_control::script.sent.size(), 1u);
    replace();
    script_messages();
    send(1, 0);
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 0u);
    EXPECT_EQ(message.ends, 0);
    ASSERT_EQ(scripted_control::script.sent.size(), 3u);
    EXPECT_EQ(scripted_control::script.sent.back().text, "text0");
    complete({scripted_control::script.sent.back().context});
    EXPECT_EQ(message.ends, 1);
    EXPECT_EQ(message.result, Status::ok);
    EXPECT_EQ(rail_.load(), 0u);
}

/// Whatever becomes of the next one.
TEST_F(WaitsToClose, WhatHasFailedWaitsForItsOwnSenderAlone) {
    TakingRail other;
    Detour detour(rail_, other, 1, 4);
    detour.post();
    const std::vector<void*> old = std::exchange(script.posted, {});
    ASSERT_EQ(old.size(), 4u);
    complete({old[0]}, FI_ECONNABORTED);
    ASSERT_EQ(FabricRailProbe::set_aside(rail_), 1u);
    script_sender();
    Offer stuck(rail_, 2, 2);
    const std::vector<void*> later = std::exchange(script.posted, {});
    ASSERT_EQ(later.size(), 2u);
    for (std::size_t i = 1; i < old.size(); ++i)
        script.completed.emplace_back(old[i], 0);
    ASSERT_TRUE(rail_.request_renewal());
    rail_.progress();
    rail_.progress();
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 1u) << "that of the others";
    EXPECT_EQ(other.taken.size(), 1u);
    EXPECT_TRUE(detour.work.done());
    EXPECT_EQ(detour.work.status(), Status::ok);
    EXPECT_FALSE(stuck.work.done());
    complete(later);
    EXPECT_EQ(stuck.work.status(), Status::ok);
}

TEST_F(WaitsToClose, WhatIsSetAsideWhenTheDeviceGoesGoesOverAnotherRail) {
    TakingRail other;
    Detour detour(rail_, other, 1, 4);
    detour.post();
    ASSERT_EQ(std::exchange(script.posted, {}).size(), 4u);
    replace();
    script.queue_answer = -FI_ENODEV;
    for (int pass = 0; pass < 3; ++pass)
        rail_.progress();
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 2u) << "the provider could wait for ever";
    EXPECT_EQ(other.taken.size(), 4u);
    EXPECT_TRUE(detour.work.done());
    EXPECT_EQ(detour.work.status(), Status::ok);
}

/// It may still land.
TEST_F(WaitsToClose, WhatIsUnderWayWhenTheCompletionQueueBreaksEndsWithAnError) {
    TakingRail other;
    Detour before(rail_, other, 1, 4), after(rail_, other, 1, 4);
    before.post();
    replace();
    after.post();
    ASSERT_EQ(std::exchange(script.posted, {}).size(), 8u);
    script.queue_answer = -FI_EOVERRUN;
    for (int pass = 0; pass < 3; ++pass)
        rail_.progress();
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 2u) << "the provider could wait for ever";
    EXPECT_TRUE(other.taken.empty());
    EXPECT_EQ(before.work.status(), Status::remote_disconnect);
    EXPECT_EQ(after.work.status(), Status::remote_disconnect);
    EXPECT_TRUE(before.work.done());
    EXPECT_TRUE(after.work.done());
}

TEST_F(WaitsToClose, HowManyOthersAreHeardOfDoesNotMatter) {
    TakingRail other;
    Detour stuck(rail_, other, 1, 4);
    stuck.post();
    ASSERT_EQ(std::exchange(script.posted, {}).size(), 4u);
    replace();
    script_messages();
    for (PeerAddress peer = 2; peer < 402; ++peer)
        send(peer, 0);
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 1u);
    send(1, 0);
    expect_again(stuck, other);
}

/// The one who is called as a former peer was says nothing of it.
TEST_F(WaitsToClose, WhoIsCalledAsAFormerPeerSaysNothingOfIt) {
    script_messages();
    const PeerAddress former = rail_.insert_peer(rail_.address());
    Message probe("probe", former);
    probe.patience_ns = 10'000'000'000;
    rail_.send(probe);
    ASSERT_EQ(scripted_control::script.sent.size(), 1u);
    const std::vector<void*> old{scripted_control::script.sent[0].context};
    replace();
    script_messages();
    rail_.remove_peer(former);
    ASSERT_EQ(rail_.insert_peer(rail_.address()), former);
    send(former, 0);
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 1u);
    complete(old);
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 0u);
    rail_.remove_peer(former);
}

TEST_F(WaitsToClose, NoMoreAreSetAsideThanMayBe) {
    std::vector<std::unique_ptr<Offer>> offers;
    std::vector<void*> old;
    for (std::size_t i = 0; i < FabricRail::most_aside + 2; ++i) {
        offers.push_back(std::make_unique<Offer>(rail_, 2, 1));
        old.insert(old.end(), script.posted.begin(), script.posted.end());
        script.posted.clear();
        rail_.request_renewal();
        rail_.progress();
        script_sender();
    }
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), FabricRail::most_aside);
    complete(old);
    for (const auto& offer : offers)
        EXPECT_EQ(offer->work.status(), Status::ok);
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 0u);
    EXPECT_EQ(rail_.load(), 0u);
}

}  // namespace
}  // namespace railyard
