// When a small WRITE that was stopped is over: not before nothing of it can come any more, whichever rails
// its message has left by. When a small READ is asked for again.
#include "engine/eager_sender.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <absl/base/thread_annotations.h>

#include "common/clock.h"
#include "engine/message_ids.h"
#include "engine/metadata.h"
#include "engine/transfer.h"
#include "manager/rail_manager.h"
#include "stub_rail.h"

namespace railyard {
namespace eager_sender_test {

using std::chrono::milliseconds;

struct NullSink final : ControlSink {
    bool on_control(std::span<const std::byte>) noexcept override { return true; }
};

/// Keeps what it is sent until the test says what has become of it.
struct KeepingRail final : StubRail {
    using StubRail::StubRail;
    void end(Status status) {
        ASSERT_NE(kept, nullptr) << "nothing was sent";
        OutMessage& message = *std::exchange(kept, nullptr);
        message.done(message, status);
    }
    void replace_sender() { sender_generation_.fetch_add(1); }
    bool request_renewal() noexcept override {
        ++renewals;
        return true;
    }
    OutMessage* kept = nullptr;
    int renewals = 0;  ///< that were asked for

  private:
    bool serve(bool) noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        if (OutMessage* const sent = outbox_.take_all()) kept = sent;
        return true;
    }
};

/// A WRITE, or READ, of 8 bytes of a peer with two rails.
class EagerSenderTest : public testing::Test, protected Introducer, protected MessageRetry {
  protected:
    static constexpr std::uint64_t nonce = 99;

    explicit EagerSenderTest(Work::Kind kind = Work::Kind::write) {
        write_.kind = kind;
        for (const RailPair pair : {control_pair, RailPair{1, 1}})
            peer_->resolve(pair).rail = pair == control_pair ? &first_ : &second_;
        write_.aim_at(peer_, false);
        write_.chunks.push_back({reinterpret_cast<std::uint64_t>(bytes_), 0x2000, sizeof(bytes_), 0, 0});
        write_.total_bytes = sizeof(bytes_);
        write_.remotes.push_back(std::make_shared<RemoteRegion>());
        write_.own_agent = &name_;
        write_.own_inbox = &inbox_;
        write_.notification.retry = this;
        write_.notification.peer = peer_.get();
        write_.eager = std::make_unique<EagerRound>(write_);
        EXPECT_TRUE(sender_.has_room_for(*write_.eager));
        write_.arm_instead();
        sender_.start(*write_.eager);
    }

    void introduce_soon() noexcept override {}
    bool undelivered(OutNotification& message) noexcept override {
        ++message.attempts;
        undelivered_ = &message;
        return true;
    }
    /// As an engine does with what was not delivered.
    void send_elsewhere() {
        ASSERT_NE(undelivered_, nullptr);
        leave_first();
        const ControlRoute route = peer_->control_route();
        undelivered_->path = route.path;
        undelivered_->restart(route.address);
        route.rail->send(*undelivered_);
    }
    void leave_first() {
        peer_->resolve(control_pair).path.fail();
        ASSERT_TRUE(peer_->choose_control_route());
        ASSERT_EQ(peer_->control_route().rail, &second_);
    }
    void stop() {
        write_.stop(Status::canceled);
        sender_.look();
    }
    void expect_over_in_time() {
        std::this_thread::sleep_for(std::chrono::nanoseconds(EagerSender::word_limit_ns));
        sender_.look();
        EXPECT_TRUE(write_.done()) << "it is waited for without a limit";
        EXPECT_EQ(write_.status(), Status::canceled);
    }

    NullSink sink_;
    std::shared_ptr<RailManager> rails_ = std::make_shared<RailManager>(
        Params::parse({{"provider", "tcp"}, {"devices", "lo"}, {"rails_per_device", "2"}}), false, sink_);
    KeepingRail first_{"first"}, second_{"second"};
    std::shared_ptr<Peer> peer_ =
        std::make_shared<Peer>(ConnectionInfo{"beta", nonce, rails_->provider(), rails_->addresses()}, rails_,
                               std::make_shared<MessageIds>());
    const std::string name_ = "alpha";
    NotificationInbox inbox_;
    EagerSender sender_{*this};
    OutNotification* undelivered_ = nullptr;
    std::uint8_t bytes_[8] = {};
    Transfer write_;
};

TEST_F(EagerSenderTest, WhatWasStoppedIsOverOnceItsConnectionIsGone) {
    first_.end(Status::ok);
    stop();
    EXPECT_FALSE(write_.done()) << "the peer may have it, and not have looked yet";
    first_.replace_sender();
    sender_.look();
    EXPECT_TRUE(write_.done());
    EXPECT_EQ(write_.status(), Status::canceled);
}

TEST_F(EagerSenderTest, WhatWentElsewhereIsNotOverWithTheConnectionThatFailed) {
    first_.end(Status::remote_disconnect);
    send_elsewhere();
    second_.end(Status::ok);
    stop();
    first_.replace_sender();
    sender_.look();
    EXPECT_FALSE(write_.done()) << "it may come over the other one";
    sender_.on_answer(nonce, {write_.eager->id, Status::ok});
    EXPECT_TRUE(write_.done());
    EXPECT_EQ(write_.status(), Status::canceled);
}

/// What the first connection had taken of it may come, too.
TEST_F(EagerSenderTest, WhatWentElsewhereIsNotOverWithTheOtherConnectionEither) {
    first_.end(Status::remote_disconnect);
    send_elsewhere();
    second_.end(Status::ok);
    stop();
    second_.replace_sender();
    sender_.look();
    EXPECT_FALSE(write_.done());
    expect_over_in_time();
}

TEST_F(EagerSenderTest, WhatIsAskedForAgainOverAnotherRailIsNotOverWithThatOne) {
    first_.end(Status::ok);
    leave_first();
    std::this_thread::sleep_for(std::chrono::nanoseconds(EagerSender::first_pause_ns));
    sender_.look();
    second_.end(Status::ok);
    stop();
    second_.replace_sender();
    sender_.look();
    EXPECT_FALSE(write_.done()) << "it may come over the first one";
    expect_over_in_time();
}

/// The next round has nothing to do with it.
TEST_F(EagerSenderTest, ARoundThatWentOneWayIsOverWithThatAgain) {
    first_.end(Status::remote_disconnect);
    send_elsewhere();
    second_.end(Status::ok);
    sender_.on_answer(nonce, {write_.eager->id, Status::ok});
    ASSERT_TRUE(write_.done());
    EXPECT_TRUE(sender_.has_room_for(*write_.eager));
    write_.arm_instead();
    sender_.start(*write_.eager);
    second_.end(Status::ok);
    stop();
    EXPECT_FALSE(write_.done());
    second_.replace_sender();
    sender_.look();
    EXPECT_TRUE(write_.done());
}

/// What the kernel has of it would land there all the same, and its notification with it.
TEST_F(EagerSenderTest, WhatIsUnderWayToAPeerThatIsGoneIsOverOnceItsConnectionIsGone) {
    first_.end(Status::ok);
    peer_->mark_gone();
    write_.stop(Status::remote_disconnect);
    sender_.look();
    EXPECT_FALSE(write_.done()) << "the kernel may have it";
    sender_.look();
    EXPECT_EQ(first_.renewals, 1) << "once, as others are interrupted for it";
    EXPECT_EQ(second_.renewals, 0);
    first_.replace_sender();
    sender_.look();
    EXPECT_TRUE(write_.done());
    EXPECT_EQ(write_.status(), Status::remote_disconnect);
}

TEST_F(EagerSenderTest, WhatIsUnderWayToAPeerThatIsGoneIsWaitedForNoLongerThanElsewhere) {
    first_.end(Status::ok);
    stop();
    EXPECT_EQ(first_.renewals, 0) << "who has stopped it interrupts it, if need be";
    peer_->mark_gone();
    sender_.look();
    EXPECT_FALSE(write_.done());
    EXPECT_EQ(first_.renewals, 1);
    expect_over_in_time();
}

struct EagerReadTest : EagerSenderTest {
    EagerReadTest() : EagerSenderTest(Work::Kind::read) {}
    void look_after_the_pause() {
        std::this_thread::sleep_for(std::chrono::nanoseconds(EagerSender::first_pause_ns));
        sender_.look();
    }
    void end_well() {
        sender_.on_data(nonce, write_.eager->id, 8, 0, "all that");
        EXPECT_EQ(write_.status(), Status::ok);
        EXPECT_TRUE(write_.done());
    }
};

/// The answer would be on its way twice, on a link that is slow already.
TEST_F(EagerReadTest, IsNotAskedForAgainWhileItsDataComes) {
    first_.end(Status::ok);
    std::this_thread::sleep_for(std::chrono::nanoseconds(EagerSender::first_pause_ns));
    sender_.on_data(nonce, write_.eager->id, 8, 0, "half");
    sender_.look();
    EXPECT_EQ(first_.kept, nullptr) << "it gets on";
    look_after_the_pause();
    first_.end(Status::ok);
    sender_.on_data(nonce, write_.eager->id, 8, 0, "half");
    EXPECT_FALSE(write_.done()) << "the half that was there already";
    sender_.on_data(nonce, write_.eager->id, 8, 4, "more");
    EXPECT_EQ(write_.status(), Status::ok);
    EXPECT_EQ(std::string(bytes_, bytes_ + sizeof(bytes_)), "halfmore");
}

/// Its own may only wait behind theirs, on a slow link.
TEST_F(EagerReadTest, IsNotAskedForAgainWhileItsPeerAnswersOthersAndThenIsAllTheSame) {
    const std::uint64_t asked_at = now_ns();  // or a little later
    first_.end(Status::ok);
    const auto others_are_answered_for = [&](std::uint64_t from, std::uint64_t limit_ns) {
        while (!first_.kept && now_ns() - asked_at < limit_ns) {
            sender_.on_answer(from, {write_.eager->id + 1, Status::ok});
            sender_.look();
            std::this_thread::sleep_for(milliseconds(2));
        }
    };
    others_are_answered_for(nonce, EagerSender::longest_pause_ns * 9 / 10);
    EXPECT_EQ(first_.kept, nullptr) << "what is slow already has to carry it twice";
    others_are_answered_for(nonce, 2 * EagerSender::longest_pause_ns);
    ASSERT_NE(first_.kept, nullptr) << "it may be lost";
    first_.end(Status::ok);
    const std::uint64_t again_at = now_ns();
    others_are_answered_for(nonce + 1, again_at - asked_at + EagerSender::longest_pause_ns);
    ASSERT_NE(first_.kept, nullptr);
    EXPECT_LT(now_ns() - again_at, EagerSender::longest_pause_ns / 2) << "another peer's answers say nothing";
    first_.end(Status::ok);
    end_well();
}

/// It may have waited here for its turn.
TEST_F(EagerReadTest, IsNotAskedForAgainAsSoonAsItHasLeft) {
    look_after_the_pause();
    first_.end(Status::ok);
    sender_.look();
    EXPECT_EQ(first_.kept, nullptr) << "nobody can have answered it";
    look_after_the_pause();
    first_.end(Status::ok);
    end_well();
}

}  // namespace eager_sender_test
}  // namespace railyard
