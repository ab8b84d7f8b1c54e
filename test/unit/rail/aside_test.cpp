// Senders that are closed when all that they have sent has ended, as on fabric efa.
#include <chrono>
#include <thread>

#include "scripted_control.h"
#include "scripted_rail.h"
#include "taking_rail.h"

namespace railyard {
namespace {

using scripted_control::Message;

class WaitsToClose : public FabricRailTest {
  protected:
    WaitsToClose() : FabricRailTest(waiting()) { scripted_control::script = {}; }
    static std::shared_ptr<const fabric::Device> waiting() {
        auto devices = fabric::discover("tcp", fabric::parse_device_filter("lo"));
        fabric::ProviderCaps& caps = devices.front().caps;
        caps.rma_pieces = 1;
        caps.waits_to_close = caps.late_after_error = caps.reads_before_close = true;
        caps.answers_at_sender = false;
        return std::make_shared<const fabric::Device>(std::move(devices.front()));
    }
    /// Another sender takes over, and what there is stays open.
    void replace() {
        const std::uint32_t before = rail_.sender_generation();
        ASSERT_TRUE(rail_.request_renewal());
        rail_.progress();
        ASSERT_NE(rail_.sender_generation(), before);
        ASSERT_EQ(FabricRailProbe::set_aside(rail_), 1u);
        script_sender();
    }
    void script_messages() {
        fid_ep* const endpoint = FabricRailProbe::endpoint(rail_);
        messages_ = *endpoint->msg;
        messages_.sendmsg = scripted_control::scripted_sendmsg;
        endpoint->msg = &messages_;
    }
    void complete(const std::vector<void*>& contexts, int error = 0) {
        for (void* context : contexts)
            script.completed.emplace_back(context, error);
        rail_.progress();
        rail_.progress();
    }
    void send(PeerAddress to, int error) {
        Message message("message", to);
        rail_.send(message);
        complete({scripted_control::script.sent.back().context}, error);
        ASSERT_EQ(message.ends, 1);
    }
    void expect_again(const Detour& stuck, const TakingRail& other) {
        EXPECT_EQ(FabricRailProbe::set_aside(rail_), 0u);
        EXPECT_TRUE(other.taken.empty());
        ASSERT_EQ(script.posted.size(), 4u);
        EXPECT_FALSE(stuck.work.done());
        complete(std::exchange(script.posted, {}));
        EXPECT_TRUE(stuck.work.done());
        EXPECT_EQ(stuck.work.status(), Status::ok);
        EXPECT_EQ(rail_.load(), 0u);
    }
    fi_ops_msg messages_{};
};

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

TEST_F(WaitsToClose, WhatNeverEndsIsGivenUp) {
    Offer stuck(rail_, 4, 1, nullptr);
    const std::vector<void*> old = std::exchange(script.posted, {});
    complete({old[0]}, FI_EIO);
    ASSERT_EQ(FabricRailProbe::set_aside(rail_), 1u);
    script_sender();
    EXPECT_FALSE(stuck.work.done());
    FabricRailProbe::end_patience(rail_);
    rail_.progress();
    EXPECT_TRUE(stuck.work.done());
    EXPECT_NE(stuck.work.status(), Status::ok);
    EXPECT_EQ(rail_.load(), 0u);
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 1u) << "it is not closed";
    Offer next(rail_, 3, 2);
    EXPECT_TRUE(ends(next));
    EXPECT_EQ(next.work.status(), Status::ok);
    complete({old[1], old[2], old[3]});
    std::this_thread::sleep_for(std::chrono::milliseconds(150));  // it is looked at less often
    rail_.progress();
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 0u) << "closed after all";
    EXPECT_EQ(rail_.load(), 0u);
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

TEST_F(WaitsToClose, WhatWasGivenUpIsClosedWhenItsPeerIsHeardOf) {
    Offer stuck(rail_, 4, 1, nullptr);
    ASSERT_EQ(std::exchange(script.posted, {}).size(), 4u);
    replace();
    FabricRailProbe::end_patience(rail_);
    rail_.progress();
    EXPECT_EQ(stuck.work.status(), Status::remote_disconnect);
    script_messages();
    send(2, 0);
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 1u) << "that is somebody else";
    send(1, 0);
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 0u);
    EXPECT_EQ(rail_.load(), 0u);
}

/// Senders that can never be closed, as many as may be: what is under way on the next one stays there.
class NoneMayBeSetAside : public WaitsToClose {
  protected:
    NoneMayBeSetAside() {
        for (std::size_t i = 0; i < FabricRail::most_given_up; ++i) {
            Offer stuck(rail_, 2, 1);
            script.posted.clear();
            replace_beside(i);
            FabricRailProbe::end_patience(rail_);
            rail_.progress();
            EXPECT_TRUE(stuck.work.done());
        }
    }
    void replace_beside(std::size_t others) {
        EXPECT_TRUE(rail_.request_renewal());
        rail_.progress();
        EXPECT_EQ(FabricRailProbe::set_aside(rail_), others + 1);
        script_sender();
    }
};

TEST_F(NoneMayBeSetAside, WhatIsStoppedThereEnds) {
    Offer stuck(rail_, 3, 1), well(rail_, 2, 2);
    const std::vector<void*> posted = std::exchange(script.posted, {});
    ASSERT_EQ(posted.size(), 5u);
    stuck.work.stop(Status::canceled);
    rail_.request_renewal();
    rail_.progress();
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), FabricRail::most_given_up);
    EXPECT_FALSE(stuck.work.done()) << "it may still land";
    FabricRailProbe::end_patience(rail_);
    rail_.progress();
    EXPECT_TRUE(stuck.work.done());
    EXPECT_EQ(stuck.work.status(), Status::canceled);
    EXPECT_FALSE(well.work.done());
    complete(posted);
    EXPECT_EQ(well.work.status(), Status::ok);
    EXPECT_EQ(rail_.load(), 0u);
    const std::size_t depth = FabricRailProbe::depth(rail_);
    Offer all(rail_, depth, 1);
    EXPECT_EQ(script.posted.size(), depth) << "its place is free again";
    complete(std::exchange(script.posted, {}));
    for (std::size_t read = 0; read < depth; read += FabricRail::completions_per_round)
        rail_.progress();
    EXPECT_TRUE(all.work.done());
}

TEST_F(NoneMayBeSetAside, WhatFailsThereIsNotCarriedOutElsewhere) {
    TakingRail other;
    Detour detour(rail_, other, 1, 2);
    detour.post();
    const std::vector<void*> posted = std::exchange(script.posted, {});
    ASSERT_EQ(posted.size(), 2u);
    complete({posted[0]}, FI_ECONNABORTED);
    EXPECT_TRUE(other.taken.empty()) << "its sender is open";
    complete({posted[1]});
    EXPECT_TRUE(detour.work.done());
    EXPECT_EQ(detour.work.status(), Status::remote_disconnect);
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
