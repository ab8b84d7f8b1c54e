// What becomes of messages whose path is left, and which paths they make doubtful.
#include <gtest/gtest.h>

#include <deque>
#include <string>

#include "scripted_control.h"

namespace railyard::scripted_control {
namespace {

/// Nobody waits there for as long as for a peer that has no other.
TEST_F(ControlChannelTest, WhatIsOnAPathThatIsLeftEndsSoThatItGoesAnotherWay) {
    const auto channel = open();
    Path path, well;
    std::deque<Message> all;
    const auto add = [&](const std::string& name, Path* over) -> Message& {
        all.emplace_back(name, 1).path = over;
        return all.back();
    };
    send(*channel, add("under way", &path));
    const auto old = channel->begin_renewal();
    channel->end_renewal(&endpoint_);
    script.sends_to[1] = -FI_EAGAIN;
    send(*channel, add("queued", &path));
    Message &probe = add("probe", &path), &elsewhere = add("elsewhere", &well);
    probe.patience_ns = give_up_ns;
    send(*channel, probe);
    send(*channel, elsewhere);
    path.fail();
    path.leave(false);
    channel->post_pending();
    for (const Message& message : all)
        EXPECT_EQ(message.ends, 0) << message.name << ": there is no other way";
    path.leave(true);
    channel->post_pending();
    for (const Message& message : all) {
        const bool ends = message.path == &path && message.patience_ns == 0;
        EXPECT_EQ(message.result, ends ? Status::remote_disconnect : Status::in_progress) << message.name;
    }
    path.heal();
    script.sends_to.clear();
    EXPECT_TRUE(pass_until(*channel, [&] { return script.sent.size() == 3; })) << "the old one was the first";
    complete_sent({Status::ok});
    EXPECT_EQ(probe.result, Status::ok);
    EXPECT_EQ(elsewhere.result, Status::ok);
}

/// Over sockets a message ends when its receiver's engine has it, and on a dead connection never.
TEST_F(ControlChannelTest, PathsOfMessagesThatDoNotEndAreDoubted) {
    const auto channel = open();
    Path path, other;
    Message old("old", 1), late("late", 2);
    old.path = &path;
    late.path = &other;
    send(*channel, old);
    channel->doubt_unanswered(2);
    EXPECT_FALSE(path.is_doubted()) << "it may have been sent a moment ago";
    send(*channel, late);
    channel->doubt_unanswered(2);
    EXPECT_TRUE(path.is_doubted());
    EXPECT_FALSE(other.is_doubted());
    path.fail();
    EXPECT_FALSE(path.is_doubted()) << "that is known";
    path.heal();
    EXPECT_FALSE(path.is_doubted());
    complete_sent({Status::ok});
}

}  // namespace
}  // namespace railyard::scripted_control
