// Control messages against a scripted provider: peers without receive buffers, peers that take nothing, and a
// provider that does not take our own receive buffers.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "least_of.h"
#include "log_lines.h"
#include "sanitized.h"
#include "scripted_control.h"

namespace railyard::scripted_control {
namespace {

/// 12 MiB of an engine with 32 rails, and a sixth of the time that it takes to make one.
TEST_F(ControlChannelTest, BuffersThatNothingHasArrivedInAreNotInMemory) {
    if (test::sanitized) GTEST_SKIP() << "the sanitizer's allocator gives memory that was in use";
    mallopt(M_MMAP_THRESHOLD, ControlChannel::pinned_bytes / 2);  // so that it is fresh
    mallopt(M_PERTURB, 0);  // meson sets MALLOC_PERTURB_, which writes to all of it
    malloc_trim(0);         // or it is what earlier tests had
    const auto channel = open();
    ASSERT_EQ(script.receive_memory.size(), receive_slots);
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    for (std::size_t i = 0; i < script.receive_memory.size(); ++i) {
        if (i == 0 || i == ControlChannel::receive_slots) continue;  // has the allocator's words
        const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(script.receive_memory[i]) & ~(page - 1);
        unsigned char resident = 0;
        ASSERT_EQ(mincore(reinterpret_cast<void*>(start), 1, &resident), 0);
        EXPECT_EQ(resident & 1, 0) << "of receive buffer " << i;
    }
}

TEST_F(ControlChannelTest, AFragmentWithoutAReceiverIsSentAgainAsItWas) {
    const auto channel = open();
    Message message("a", 1, 3);
    send(*channel, message);
    ASSERT_EQ(script.sent.size(), 3u);
    static_cast<fabric::OpContext*>(script.sent[1].context)->complete_with(no_buffer());
    script.sent.erase(script.sent.begin() + 1);
    complete_sent({});
    EXPECT_EQ(message.ends, 0);
    EXPECT_TRUE(channel->has_pending()) << "nobody would come back to it";
    for (int refusal = 0; refusal < 3; ++refusal) {
        ASSERT_TRUE(pass_until(*channel, [] { return script.sent.size() == 1; }));
        EXPECT_EQ(script.sent.front().text, "a1");
        EXPECT_EQ(script.sent.front().to, 1u);
        complete_sent(no_buffer());
    }
    ASSERT_TRUE(pass_until(*channel, [] { return script.sent.size() == 1; }));
    complete_sent({});
    EXPECT_EQ(message.ends, 1);
    EXPECT_EQ(message.result, Status::ok);
    EXPECT_FALSE(channel->has_pending());
    EXPECT_EQ(channel->outstanding(), 0u);
}

TEST_F(ControlChannelTest, APeerWithoutReceiveBuffersHoldsUpNobodyElse) {
    const auto channel = open();
    Message asleep("asleep", 1, 100), awake("awake", 2, 100);
    send(*channel, asleep);
    EXPECT_EQ(script.sent.size(), ControlChannel::most_to_one);
    complete_sent(no_buffer());
    channel->queue(&awake);
    ASSERT_TRUE(pass_until(*channel, [&] {
        channel->post_pending();
        std::vector<Script::Sent> all;
        all.swap(script.sent);
        for (const Script::Sent& each : all)
            static_cast<fabric::OpContext*>(each.context)
                ->complete_with(each.to == 1 ? no_buffer() : fabric::Completion{});
        return awake.ends == 1;
    }));
    EXPECT_EQ(awake.result, Status::ok);
    EXPECT_LE(asleep.position, static_cast<int>(ControlChannel::send_slots))
        << "what comes later must wait for what was refused";
    script.sent.clear();
    channel->cancel_all();
    EXPECT_EQ(asleep.ends, 1);
}

TEST_F(ControlChannelTest, WhatIsSentAgainLeavesMostSlotsToOthers) {
    const auto channel = open();
    std::deque<Message> messages;
    for (PeerAddress peer = 1; peer <= 3 * ControlChannel::send_slots; ++peer) {
        send(*channel, messages.emplace_back("asleep", peer));
        complete_sent(no_buffer());
    }
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(5))  // all are due
        channel->post_pending();
    EXPECT_GT(script.sent.size(), 0u);
    EXPECT_LE(script.sent.size(), ControlChannel::most_again) << "a NIC tries for each for a while";
    const std::size_t again = script.sent.size();
    Message awake("awake", 1000);
    send(*channel, awake);
    EXPECT_EQ(script.sent.size(), again + 1);
    ASSERT_TRUE(pass_until(*channel, [&] {
        complete_sent({});
        return std::all_of(messages.begin(), messages.end(),
                           [](const Message& one) { return one.ends == 1; });
    }));
    EXPECT_EQ(awake.result, Status::ok);
}

/// A pass looks at those that are due, and at 96 peers for which something waits.
TEST_F(ControlChannelTest, ManyPeersWithoutReceiveBuffersTakeNoTime) {
    constexpr PeerAddress peers = 4000;
    const auto channel = std::make_unique<ControlChannel>(domain_, endpoint_, sink_, 60'000'000'000);
    channel->send_from(&endpoint_);
    std::deque<Message> messages;
    for (PeerAddress peer = 1; peer <= peers; ++peer) {
        send(*channel, messages.emplace_back("asleep", peer));
        complete_sent(no_buffer());
    }
    for (PeerAddress peer = 1; peer <= 2 * peers; ++peer)
        channel->queue(&messages.emplace_back("later", peer % peers + 1));
    const auto pass = [&] {
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < 20; ++i) {
            channel->post_pending();
            complete_sent(no_buffer());
        }
        return (std::chrono::steady_clock::now() - begin) / 20;
    };
    constexpr std::chrono::microseconds limit(test::sanitized ? 10000 : 1500);
    EXPECT_LT(test::least_of(std::chrono::nanoseconds(limit), pass, 10), limit);
    complete_sent({});
    channel->cancel_all();
    for (const Message& message : messages)
        EXPECT_EQ(message.ends, 1);
}

TEST_F(ControlChannelTest, ReceiversThatStayAwayAreGivenUpInTimeWithAllThatWaitsForThem) {
    const auto channel = open();
    std::deque<Message> messages;
    for (int i = 0; i < 100; ++i)
        channel->queue(&messages.emplace_back("m", 1, 4));
    const auto start = std::chrono::steady_clock::now();
    const auto ended = [](const Message& message) { return message.ends == 1; };
    ASSERT_TRUE(pass_until(*channel, [&] {
        complete_sent(no_buffer());
        return std::any_of(messages.begin(), messages.end(), ended);
    }));
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::nanoseconds(give_up_ns));
    const std::size_t posts = script.posts;
    EXPECT_LT(posts, ControlChannel::send_slots * 40) << "pauses must grow";
    ASSERT_TRUE(pass_until(*channel, [&] {
        complete_sent(no_buffer());
        return std::all_of(messages.begin(), messages.end(), ended);
    }));
    EXPECT_LE(script.posts - posts, 3 * ControlChannel::send_slots)
        << "they must not try one after the other";
    for (const Message& message : messages)
        EXPECT_EQ(message.result, Status::remote_disconnect);
    EXPECT_FALSE(channel->has_pending());
}

TEST_F(ControlChannelTest, SendsThatAreRefusedForEverAreGivenUpInTimeWithAllThatWaitsForThem) {
    const auto channel = open();
    script.sends_to[1] = -FI_EAGAIN;
    std::deque<Message> messages;
    for (int i = 0; i < 20; ++i)
        channel->queue(&messages.emplace_back("m", 1, 4));
    Message other("other", 2);
    channel->queue(&other);
    const auto start = std::chrono::steady_clock::now();
    const auto ended = [](const Message& message) { return message.ends == 1; };
    ASSERT_TRUE(pass_until(*channel, [&] { return std::any_of(messages.begin(), messages.end(), ended); }));
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::nanoseconds(give_up_ns));
    EXPECT_TRUE(std::all_of(messages.begin(), messages.end(), ended))
        << "they must not be given up one after the other";
    EXPECT_EQ(script.sent.size(), 1u) << "the other peer's message";
    complete_sent({});
    EXPECT_EQ(other.result, Status::ok);
}

TEST_F(ControlChannelTest, AProbeBehindWhatIsRefusedEndsWithItsOwnPatience) {
    const auto channel = open();
    script.sends_to[1] = -FI_EAGAIN;
    Message letter("letter", 1), probe("probe", 1), last("last", 1);
    probe.patience_ns = give_up_ns / 20;
    for (Message* message : {&letter, &probe, &last})
        send(*channel, *message);
    ASSERT_TRUE(pass_until(*channel, [&] { return probe.ends == 1; }));
    EXPECT_EQ(probe.result, Status::remote_disconnect);
    EXPECT_EQ(letter.ends + last.ends, 0) << "it waited as long as they did";
    script.sends_to.clear();
    ASSERT_TRUE(pass_until(*channel, [&] { return script.sent.size() == 2; }));
    complete_sent({Status::ok});
    EXPECT_EQ(letter.result, Status::ok);
    EXPECT_EQ(last.result, Status::ok);
}

TEST_F(ControlChannelTest, ARefusedFragmentWhoseRepetitionIsRefusedByTheProviderEnds) {
    const auto channel = open();
    Message message("a", 1);
    send(*channel, message);
    complete_sent(no_buffer());
    script.sends_to[1] = -FI_EAGAIN;
    ASSERT_TRUE(pass_until(*channel, [&] { return message.ends == 1; }));
    EXPECT_EQ(message.result, Status::remote_disconnect);

    Message second("b", 2);
    send(*channel, second);
    complete_sent(no_buffer());
    script.sends_to[2] = -FI_EINVAL;
    ASSERT_TRUE(pass_until(*channel, [&] { return second.ends == 1; }));
    EXPECT_EQ(second.result, Status::backend);
    EXPECT_FALSE(channel->has_pending());
}

TEST_F(ControlChannelTest, AMessageThatFailsTakesItsRefusedFragmentsAlong) {
    const auto channel = open();
    Message message("a", 1, 2);
    send(*channel, message);
    static_cast<fabric::OpContext*>(script.sent[0].context)->complete_with(no_buffer());
    static_cast<fabric::OpContext*>(script.sent[1].context)->complete_with({Status::backend, 0, FI_EIO, 1});
    script.sent.clear();
    channel->post_pending();
    EXPECT_EQ(message.ends, 1);
    EXPECT_EQ(message.result, Status::backend);
    EXPECT_TRUE(script.sent.empty());
}

/// Its sender is replaced for another peer's sake, again and again.
TEST_F(ControlChannelTest, CancelingEndsRefusedMessagesOnce) {
    const auto channel = open();
    Message waiting("a", 1, 2), again("b", 2);
    send(*channel, waiting);
    send(*channel, again);
    complete_sent(no_buffer());
    ASSERT_TRUE(pass_until(*channel, [] { return script.sent.size() == 3; }));
    complete_sent(no_buffer());
    channel->cancel_all();
    EXPECT_EQ(waiting.ends, 1);
    EXPECT_EQ(waiting.result, Status::canceled);
    EXPECT_EQ(again.ends, 1);
}

TEST_F(ControlChannelTest, ReceiveBuffersThatWereNotTakenAreOfferedAgain) {
    script.receives = {0, -FI_EAGAIN, -FI_ENOMEM, -FI_EINVAL};
    const auto channel = open();
    EXPECT_EQ(script.buffers.size(), receive_slots - 3);
    EXPECT_EQ(channel->receives_missing(), 3u);
    ASSERT_TRUE(pass_until(*channel, [&] { return channel->receives_missing() == 0; }));
    EXPECT_EQ(script.buffers.size(), receive_slots);
}

TEST_F(ControlChannelTest, AProviderThatTakesNoReceiveBufferIsAskedNowAndThenOnly) {
    const test::LogLines log;
    script.receives_otherwise = -FI_ENOMEM;
    const auto channel = open();
    EXPECT_EQ(channel->receives_missing(), receive_slots);
    const auto begun = std::chrono::steady_clock::now();
    const auto lasts = [&](auto time) { return std::chrono::steady_clock::now() - begun < time; };
    // At least until it has been asked once: the machine may stop us for all of that time.
    while (lasts(std::chrono::milliseconds(200)) ||
           (script.receive_posts == receive_slots && lasts(patience)))
        channel->post_pending();
    EXPECT_GT(script.receive_posts, receive_slots);
    EXPECT_LE(script.receive_posts, receive_slots + 50) << "one try in 10 ms, or so";
    EXPECT_LE(log.count(), 2 * 7) << "one for each endpoint, more and more seldom";
    script.receives_otherwise = 0;
    ASSERT_TRUE(pass_until(*channel, [&] { return channel->receives_missing() == 0; }));
    EXPECT_EQ(script.buffers.size(), receive_slots);
}

TEST_F(ControlChannelTest, WhatThereIsNoMemoryForStaysInItsBufferAndIsHandedOnAgain) {
    const test::LogLines log;
    const auto channel = open();
    sink_.refusals = 3;
    for (int i = 0; i < 2; ++i) {
        void* const buffer = script.buffers.front();
        script.buffers.erase(script.buffers.begin());
        static_cast<fabric::OpContext*>(buffer)->complete_with({Status::ok, 10, 0, 0});
    }
    EXPECT_EQ(sink_.arrived, 0);
    EXPECT_EQ(channel->receives_missing(), 2u);
    EXPECT_TRUE(channel->has_pending()) << "its rail must not wait for others to tell it";
    EXPECT_EQ(script.buffers.size(), receive_slots - 2) << "another message might come into it";
    EXPECT_EQ(log.count(), 2u);
    ASSERT_TRUE(pass_until(*channel, [&] { return channel->receives_missing() == 0; }));
    EXPECT_EQ(sink_.arrived, 2);
    EXPECT_EQ(sink_.refusals, 0);
    EXPECT_EQ(script.buffers.size(), receive_slots);
    EXPECT_FALSE(channel->has_pending());
    channel->post_pending();
    EXPECT_EQ(sink_.arrived, 2);
}

/// As verbs tells of a peer's write with immediate data where receives are shared among connections.
TEST_F(ControlChannelTest, AMessageThatIsLongerThanItsBufferIsRefused) {
    const test::LogLines log;
    const auto channel = open();
    static fi_cq_data_entry come;
    fi_ops_cq* const real = queue_.get()->ops;
    fi_ops_cq scripted = *real;
    scripted.read = [](fid_cq*, void* entries, std::size_t) -> ssize_t {
        if (!come.op_context) return -FI_EAGAIN;
        *static_cast<fi_cq_data_entry*>(entries) = std::exchange(come, {});
        return 1;
    };
    queue_.get()->ops = &scripted;
    const auto receive = [&](std::uint64_t flags, std::size_t length) {
        come = {script.buffers.front(), flags, length, nullptr, 0};
        script.buffers.erase(script.buffers.begin());
        queue_.drain(1);
    };
    receive(FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA, std::size_t{1} << 20);
    receive(FI_RECV | FI_MSG, OutMessage::longest_fragment + 1);
    EXPECT_EQ(sink_.arrived, 0);
    EXPECT_EQ(log.count("refused a message of 1048576 bytes"), 1);
    EXPECT_EQ(script.buffers.size(), receive_slots) << "its buffer is offered again";
    receive(FI_RECV | FI_MSG, OutMessage::longest_fragment);
    EXPECT_EQ(sink_.arrived, 1);
    EXPECT_EQ(channel->counters().fragments_received, 1u);
    queue_.get()->ops = real;
}

TEST_F(ControlChannelTest, ReceivesThatBreakWithAConnectionComeBack) {
    const auto channel = open();
    std::vector<void*> all;
    all.swap(script.buffers);
    for (void* context : all)
        static_cast<fabric::OpContext*>(context)->complete_with(
            {Status::remote_disconnect, 0, FI_ECANCELED, 0});
    ASSERT_TRUE(pass_until(*channel, [] { return script.buffers.size() == receive_slots; }));
    static_cast<fabric::OpContext*>(script.buffers.front())->complete_with({Status::ok, 10, 0, 0});
    EXPECT_EQ(sink_.arrived, 1);
}

}  // namespace
}  // namespace railyard::scripted_control
