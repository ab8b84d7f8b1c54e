// Answers over the connection of their question, and what becomes of those that cannot go there.
#include <gtest/gtest.h>

#include <deque>
#include <memory>

#include "scripted_control.h"

namespace railyard::scripted_control {
namespace {

constexpr PeerAddress usual = 7, asker = 11;

struct Reply : Message {
    explicit Reply(int fragments = 1) : Message("reply", usual, fragments) {
        is_answered = true;
        OutMessage::asker = scripted_control::asker;
    }
};

fi_addr_t destination_of(std::size_t sent) {
    return script.sent.at(sent).to;
}

TEST_F(ControlChannelTest, AnswersGoWhereTheirQuestionsCameFrom) {
    const auto channel = open();
    Reply reply(3);
    send(*channel, reply);
    ASSERT_EQ(script.sent.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(destination_of(i), asker);
        EXPECT_EQ(script.sent[i].text, "reply" + std::to_string(i));
    }
    EXPECT_EQ(channel->outstanding(), 3u);
    EXPECT_EQ(reply.ends, 0);
    complete_sent({Status::ok});
    EXPECT_EQ(reply.ends, 1);
    EXPECT_EQ(reply.result, Status::ok);
    EXPECT_EQ(channel->outstanding(), 0u);
    EXPECT_EQ(channel->counters().fragments_sent, 3u);
    EXPECT_EQ(channel->counters().bytes_sent, 3 * 6u);
}

TEST_F(ControlChannelTest, AnswersThatAreNotTakenAtOnceGoTheOrdinaryWay) {
    const auto channel = open();
    script.sends_to[asker] = -FI_EAGAIN;  // its connection has ended
    Reply reply(2);
    send(*channel, reply);
    ASSERT_EQ(script.sent.size(), 2u);
    EXPECT_EQ(script.sent[0].text + script.sent[1].text, "reply0reply1");
    EXPECT_EQ(destination_of(0), usual);
    EXPECT_EQ(destination_of(1), usual);
    EXPECT_EQ(script.posts, 3u) << "tried once";
    complete_sent({Status::ok});
    EXPECT_EQ(reply.ends, 1);
    EXPECT_EQ(reply.result, Status::ok);
    EXPECT_EQ(reply.OutMessage::asker, no_address) << "what fails now has failed on the ordinary way";
}

/// An asker that has replaced its sender is another address; the old one may be nobody's by now.
TEST_F(ControlChannelTest, AnswersToAskersThatMayHaveBeenRemovedGoTheOrdinaryWay) {
    const auto channel = open();
    channel->peer_removed(1);
    Reply known_before, known_since;
    known_since.removals = 1;
    send(*channel, known_before);
    send(*channel, known_since);
    ASSERT_EQ(script.sent.size(), 2u);
    EXPECT_EQ(destination_of(0), usual);
    EXPECT_EQ(destination_of(1), asker);
}

TEST_F(ControlChannelTest, AnswersThatAreLostEndSoThatTheyAreSentElsewhere) {
    const auto channel = open();
    Reply lost(2), halfway(3);
    send(*channel, lost);
    complete_sent({Status::backend, 0, FI_EIO, 0});
    script.sends = {0, -FI_EAGAIN};
    send(*channel, halfway);
    EXPECT_EQ(script.sent.size(), 1u);
    EXPECT_EQ(halfway.ends, 0) << "a fragment of it is with the provider";
    complete_sent({Status::ok});
    for (const Reply* reply : {&lost, &halfway}) {
        EXPECT_EQ(reply->ends, 1);
        EXPECT_EQ(reply->result, Status::remote_disconnect);
        EXPECT_EQ(reply->OutMessage::asker, asker) << "as a sign that it was not the ordinary way";
    }
    EXPECT_EQ(channel->outstanding(), 0u);
}

/// Else a peer that takes nothing would hold up the others' answers; and one that begins ends, in order.
TEST_F(ControlChannelTest, AnswersWithoutRoomForTheLongestGoTheOrdinaryWay) {
    const auto channel = open();
    constexpr std::size_t fit = AnswerChannel::send_slots - AnswerChannel::longest_message + 1;
    std::deque<Reply> replies(fit + 1);
    for (Reply& reply : replies)
        send(*channel, reply);
    ASSERT_EQ(script.sent.size(), fit + 1);
    for (std::size_t i = 0; i < fit; ++i)
        EXPECT_EQ(destination_of(i), asker) << i;
    EXPECT_EQ(destination_of(fit), usual);
    complete_sent({Status::ok});
    Reply later;
    send(*channel, later);
    EXPECT_EQ(destination_of(0), asker);
    channel->cancel_all();
    EXPECT_EQ(later.ends, 1);
    EXPECT_EQ(later.result, Status::canceled);
}

TEST_F(ControlChannelTest, ARenewedSenderTakesAnswersAndWhatWasSentGoesOn) {
    const auto channel = open();
    Reply reply;
    send(*channel, reply);
    std::vector<void*> before;
    before.swap(script.buffers);
    const auto complete = [](void* buffer, const fabric::Completion& completion) {
        static_cast<fabric::OpContext*>(buffer)->complete_with(completion);
    };
    const auto old = channel->begin_renewal();
    // At the old sender: one that had come still, and the others end with it.
    const auto first_of_sender = before.begin() + ControlChannel::receive_slots;
    complete(*first_of_sender, {Status::ok, 10, 0, 0});
    EXPECT_EQ(sink_.arrived, 1);
    complete(*(first_of_sender + 1), {Status::remote_disconnect, 0, FI_ECANCELED, 0});
    EXPECT_TRUE(script.buffers.empty()) << "offered to a sender that is being closed";
    channel->end_renewal(&endpoint_);
    channel->send_from(&endpoint_);
    EXPECT_EQ(script.buffers.size(), AnswerChannel::receive_slots);
    complete(*(first_of_sender + 2), {Status::ok, 10, 0, 0});
    EXPECT_EQ(sink_.arrived, 1) << "its buffer belongs to another one by now";
    complete(script.buffers.front(), {Status::ok, 10, 0, 0});
    EXPECT_EQ(sink_.arrived, 2);
    EXPECT_EQ(channel->receives_missing(), 0u);
    EXPECT_EQ(reply.ends, 0);
    complete_sent({Status::ok});  // from the endpoint that stays
    EXPECT_EQ(reply.ends, 1);
    EXPECT_EQ(reply.result, Status::ok);
}

}  // namespace
}  // namespace railyard::scripted_control
