// Who gets a rail's send slots: when senders are replaced under messages, and beside probes.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sanitized.h"
#include "scripted_control.h"

namespace railyard::scripted_control {
namespace {

TEST_F(ControlChannelTest, WithoutAnEndpointToSendFromMessagesEndAtOnceSoThatTheyGoAnotherWay) {
    const auto channel = open();
    Message under_way("under way", 1), refused("refused", 2), queued("queued", 3);
    send(*channel, refused);
    complete_sent(no_buffer());
    send(*channel, under_way);
    EXPECT_EQ(script.sent.size(), 1u);
    const auto old = channel->begin_renewal();
    channel->end_renewal(nullptr);  // and no other endpoint can be opened
    channel->send_from(nullptr);
    send(*channel, queued);
    for (const Message* message : {&under_way, &refused, &queued}) {
        EXPECT_EQ(message->ends, 1) << message->name;
        EXPECT_EQ(message->result, Status::remote_disconnect) << message->name;
    }
    EXPECT_FALSE(channel->has_pending());
    channel->send_from(&endpoint_);
    Message later("later", 1);
    send(*channel, later);
    complete_sent({Status::ok});
    EXPECT_EQ(later.result, Status::ok);
}

TEST_F(ControlChannelTest, AMessageThatNobodyAnswersGivesItsSlotBack) {
    const auto channel = open();
    Message silent("silent", 1);
    send(*channel, silent);
    std::vector<std::shared_ptr<void>> old;  // as rails keep them, for stray completions
    const auto begin = std::chrono::steady_clock::now();
    int renewals = 0;
    while (silent.ends == 0 && std::chrono::steady_clock::now() - begin < patience) {
        script.sent.clear();
        old.push_back(channel->begin_renewal());
        channel->end_renewal(&endpoint_);
        channel->post_pending();
        ++renewals;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(silent.ends, 1);
    EXPECT_EQ(silent.result, Status::remote_disconnect) << "so that it goes another way";
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::nanoseconds(give_up_ns));
    EXPECT_GE(renewals, 2) << "once is no reason";
    EXPECT_EQ(channel->outstanding(), 0u);
}

TEST_F(ControlChannelTest, ProbesLeaveHalfOfTheSlotsToOthers) {
    const auto channel = open();
    std::deque<Message> probes;
    for (std::size_t i = 0; i < 2 * ControlChannel::most_slots; ++i) {
        probes.emplace_back("probe", i + 1);
        probes.back().patience_ns = 1;
        send(*channel, probes.back());
    }
    EXPECT_EQ(script.sent.size(), channel->most_impatient());
    Message other("other", 2 * ControlChannel::most_slots + 1);
    send(*channel, other);
    EXPECT_EQ(script.sent.size(), channel->most_impatient() + 1) << "waits behind probes";
    complete_sent({Status::ok});
    EXPECT_EQ(other.ends, 1);
    while (std::any_of(probes.begin(), probes.end(), [](const Message& probe) { return probe.ends == 0; })) {
        channel->post_pending();
        ASSERT_FALSE(script.sent.empty()) << "the others are never sent";
        complete_sent({Status::ok});
    }
    channel->cancel_all();
}

TEST_F(ControlChannelTest, ALongMessageLeavesSlotsToOthers) {
    const auto channel = open();
    constexpr int fragments = 3 * ControlChannel::send_slots;
    Message long_one("long", 1, fragments), other("other", 2);
    send(*channel, long_one);
    EXPECT_EQ(script.sent.size(), ControlChannel::most_to_one);
    send(*channel, other);
    EXPECT_EQ(script.sent.size(), ControlChannel::most_to_one + 1) << "waits for a peer that is not its own";
    int rounds = 0;
    for (; long_one.ends == 0 && rounds < fragments; ++rounds) {
        complete_sent({Status::ok});
        channel->post_pending();
    }
    EXPECT_EQ(long_one.result, Status::ok);
    EXPECT_EQ(long_one.position, fragments);
    EXPECT_EQ(other.result, Status::ok);
}

/// It has its slots until it looks: over sockets they end when the receiver's engine has them.
TEST_F(ControlChannelTest, APeerThatDoesNotLookHoldsUpNobodyElse) {
    const auto channel = open();
    std::deque<Message> unseen;
    for (std::size_t i = 0; i < 3 * ControlChannel::send_slots; ++i)
        send(*channel, unseen.emplace_back("unseen", 1));
    EXPECT_EQ(script.sent.size(), ControlChannel::most_to_one);
    Message probe("probe", 1), other("other", 2);
    probe.patience_ns = give_up_ns / 2;
    send(*channel, probe);
    EXPECT_EQ(script.sent.size(), ControlChannel::most_to_one + 1) << "nobody would find out";
    send(*channel, other);
    EXPECT_EQ(script.sent.size(), ControlChannel::most_to_one + 2);
    EXPECT_EQ(script.sent.back().to, 2u);
    const auto ended = [](const Message& message) { return message.result == Status::ok; };
    ASSERT_TRUE(pass_until(*channel, [&] {
        complete_sent({Status::ok});
        return std::all_of(unseen.begin(), unseen.end(), ended);
    }));
    EXPECT_EQ(channel->outstanding(), 0u);
}

/// A NIC has them until it gives up, which may take seconds.
TEST_F(ControlChannelTest, AHostThatIsCutOffHoldsUpNobodyElseWithoutSocketsEither) {
    auto devices = fabric::discover("tcp", fabric::parse_device_filter("lo"));
    devices.front().caps.sends_into_sockets = devices.front().caps.answers_at_sender = false;
    const fabric::Domain domain(std::make_shared<const fabric::Device>(std::move(devices.front())), "nic");
    ControlChannel channel(domain, endpoint_, sink_, give_up_ns);
    channel.send_from(&endpoint_);
    std::deque<Message> unanswered;
    for (std::size_t i = 0; i < 3 * ControlChannel::send_slots; ++i)
        send(channel, unanswered.emplace_back("unanswered", 1));
    EXPECT_EQ(script.sent.size(), ControlChannel::most_to_one);
    Message probe("probe", 1), other("other", 2), asked("asked", 2);
    probe.patience_ns = asked.patience_ns = give_up_ns / 2;
    for (Message* message : {&probe, &other, &asked}) {
        send(channel, *message);
        EXPECT_EQ(script.sent.back().text, message->name + "0");
    }
    channel.cancel_all();
}

/// However many of them there are: others hear of something, and are asked whether they are there.
TEST_F(ControlChannelTest, ManyPeersThatDoNotLookLeaveSlotsToOthers) {
    const auto channel = open();
    std::deque<Message> unseen;
    const auto flood = [&](PeerAddress peers) {
        for (PeerAddress peer = 1; peer <= peers; ++peer) {
            for (std::size_t i = 0; i <= ControlChannel::most_to_one; ++i)
                send(*channel, unseen.emplace_back("unseen", peer));
        }
    };
    flood(90);
    Message other("other", 5000);
    send(*channel, other);
    EXPECT_EQ(script.sent.back().to, 5000u);
    for (PeerAddress peer = 10'000; peer < 12'000; ++peer)
        send(*channel, unseen.emplace_back("unseen", peer));
    EXPECT_EQ(script.sent.size(), ControlChannel::most_slots - channel->kept_for_probes());
    Message probe("probe", 6000);
    probe.patience_ns = give_up_ns / 2;
    send(*channel, probe);
    const auto has_probe = [&] { return script.sent.back().to == 6000; };
    EXPECT_TRUE(pass_until(*channel, has_probe)) << "nobody would find out";
    const auto ended = [](const Message& message) { return message.result == Status::ok; };
    ASSERT_TRUE(pass_until(*channel, [&] {
        complete_sent({Status::ok});
        return std::all_of(unseen.begin(), unseen.end(), ended);
    }));
    EXPECT_EQ(other.result, Status::ok);
}

/// Nobody walks over all that waits, each time that one more comes.
TEST_F(ControlChannelTest, WhatWaitsForOnePeerIsSentInItsOrderAndIsInNobodysWay) {
    constexpr int count = test::sanitized ? 5'000 : 40'000;
    const auto channel = open();
    std::deque<Message> unseen;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i)
        send(*channel, unseen.emplace_back(std::to_string(i) + ".", 1));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(test::sanitized ? 20 : 2));
    Work stopped;
    stopped.arm(1, nullptr);
    Message last("last", 1), other("other", 2);
    last.owner = &stopped;
    send(*channel, last);
    send(*channel, other);
    ASSERT_EQ(script.sent.size(), ControlChannel::most_to_one + 1);
    EXPECT_EQ(script.sent.back().text, "other0");
    script.sent.pop_back();
    stopped.abandon(Status::canceled);
    EXPECT_TRUE(pass_until(*channel, [&] { return last.ends == 1; })) << "though its peer does not look";
    EXPECT_EQ(last.result, Status::canceled);
    int next = 0;
    while (next < count) {
        ASSERT_FALSE(script.sent.empty());
        for (const Script::Sent& each : script.sent)
            ASSERT_EQ(each.text, std::to_string(next++) + ".0");
        complete_sent({Status::ok});
        channel->post_pending();
    }
    EXPECT_EQ(unseen.back().result, Status::ok);
    channel->cancel_all();
}

TEST_F(ControlChannelTest, WhatWaitsForOnePeerIsCanceledAtTheEnd) {
    const auto channel = open();
    std::deque<Message> unseen;
    for (int i = 0; i < 100; ++i)
        send(*channel, unseen.emplace_back("unseen", 1));
    channel->cancel_all();
    for (const Message& message : unseen)
        EXPECT_EQ(message.ends, 1);
    script.sent.clear();
}

class ManyPeers : public ControlChannelTest {
  protected:
    static constexpr PeerAddress peers = 150;
    static_assert(peers > BlockedSet::most && peers > 2 * ControlChannel::send_slots);
    const std::unique_ptr<ControlChannel> channel_ = open();
    std::deque<Message> unseen_;  // one to each

    ManyPeers() {
        for (PeerAddress peer = 1; peer <= peers; ++peer)
            send(*channel_, unseen_.emplace_back("unseen", peer));
    }
    ~ManyPeers() override { channel_->cancel_all(); }
};

TEST_F(ManyPeers, ThatDoNotLookHoldUpNobodyElse) {
    ASSERT_EQ(script.sent.size(), peers);
    Message other("other", peers + 1);
    send(*channel_, other);
    ASSERT_EQ(script.sent.size(), peers + 1);
    EXPECT_EQ(channel_->outstanding(), peers + 1);
    complete_sent({Status::ok});
    EXPECT_EQ(other.result, Status::ok);
    for (const Message& message : unseen_)
        EXPECT_EQ(message.result, Status::ok);
    Message again("again", 1);
    send(*channel_, again);  // from a slot that has been there all along
    ASSERT_EQ(script.sent.size(), 1u);
    complete_sent({Status::ok});
    EXPECT_EQ(again.result, Status::ok);
    EXPECT_EQ(channel_->outstanding(), 0u);
}

/// More than are tried in one pass.
TEST_F(ManyPeers, ThatTakeNothingAfterARenewalHoldUpNobodyElse) {
    script.sent.clear();
    const auto old = channel_->begin_renewal();
    channel_->end_renewal(&endpoint_);
    for (PeerAddress peer = 1; peer <= peers; ++peer)
        script.sends_to[peer] = -FI_EAGAIN;
    for (const PeerAddress taking : {PeerAddress{1}, peers / 2, peers}) {
        script.sends_to.erase(taking);
        ASSERT_TRUE(pass_until(*channel_, [] { return !script.sent.empty(); })) << taking;
        ASSERT_EQ(script.sent.size(), 1u);
        EXPECT_EQ(script.sent.front().to, taking);
        complete_sent({Status::ok});
        EXPECT_EQ(unseen_[taking - 1].result, Status::ok);
        script.sends_to[taking] = -FI_EAGAIN;
    }
    Message other("other", peers + 1);
    send(*channel_, other);
    ASSERT_EQ(script.sent.size(), 1u) << "what is sent again takes all of a pass";
    EXPECT_EQ(script.sent.front().to, peers + 1);
    complete_sent({Status::ok});
}

TEST_F(ControlChannelTest, InterruptedMessagesDoNotWaitForAPeerThatTakesNothing) {
    const auto channel = open();
    Message one("one", 1), refused("refused", 2), three("three", 3), next("next", 4);
    for (Message* message : {&one, &refused, &three})
        send(*channel, *message);
    script.sent.clear();
    const auto old = channel->begin_renewal();
    channel->end_renewal(&endpoint_);
    script.sends_to[2] = -FI_EAGAIN;
    send(*channel, next);
    EXPECT_EQ(script.sent.size(), 3u) << "one, three and next";
    script.sends_to.clear();
    ASSERT_TRUE(pass_until(*channel, [] { return script.sent.size() == 4; }));
    complete_sent({Status::ok});
    for (const Message* message : {&one, &refused, &three, &next})
        EXPECT_EQ(message->result, Status::ok) << message->name;
    EXPECT_EQ(channel->outstanding(), 0u);
}

TEST_F(ControlChannelTest, HundredsOfPeersThatTakeNothingDoNotHoldUpAnother) {
    constexpr PeerAddress peers = 200;
    const auto channel = open();
    std::deque<Message> blocked;
    for (PeerAddress peer = 1; peer <= peers; ++peer) {
        script.sends_to[peer] = -FI_EAGAIN;
        blocked.emplace_back("blocked", peer);
        channel->queue(&blocked.back());
    }
    Message live("live", peers + 1);
    channel->queue(&live);
    const std::size_t passes = 2 * (peers / BlockedSet::most + 1);  // one may be over half of them
    for (std::size_t pass = 0; pass < passes && script.sent.empty(); ++pass)
        channel->post_pending();
    ASSERT_EQ(script.sent.size(), 1u);
    EXPECT_EQ(script.sent.front().to, peers + 1);
    EXPECT_EQ(blocked.front().ends, 0) << "it waited until they were given up";
    EXPECT_TRUE(channel->has_pending());
    channel->cancel_all();
    EXPECT_TRUE(std::all_of(blocked.begin(), blocked.end(), [](const Message& each) {
        return each.ends == 1;
    })) << "those that were met, too";
    script.sent.clear();
}

TEST_F(ControlChannelTest, MessagesToOneOfHundredsOfPeersKeepTheirOrder) {
    constexpr PeerAddress peers = 200;
    const auto channel = open();
    std::deque<Message> all;
    for (PeerAddress peer = 1; peer <= peers; ++peer)
        script.sends_to[peer] = -FI_EAGAIN;
    for (const char* name : {"first", "second"}) {
        for (PeerAddress peer = 1; peer <= peers; ++peer) {
            all.emplace_back(name, name == std::string("first") ? peer : peers + 1 - peer);
            channel->queue(&all.back());
        }
        channel->post_pending();
    }
    std::map<fi_addr_t, std::string> sent;
    const auto pass = [&] {
        channel->post_pending();
        for (const Script::Sent& each : script.sent)
            sent[each.to] += each.text + " ";
        complete_sent({Status::ok});
    };
    for (PeerAddress step = 1; step <= peers; ++step) {
        script.sends_to.erase(step * 7 % (peers + 1));  // one after the other, wherever the sweep is
        pass();
    }
    const auto limit = std::chrono::steady_clock::now() + patience;
    while (channel->has_pending() && std::chrono::steady_clock::now() < limit)
        pass();
    EXPECT_FALSE(channel->has_pending());
    for (const auto& [peer, texts] : sent)
        EXPECT_EQ(texts, "first0 second0 ") << "to peer " << peer;
}

}  // namespace
}  // namespace railyard::scripted_control
