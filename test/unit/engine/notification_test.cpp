#include "engine/notification.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "common/wire.h"
#include "engine/request.h"
#include "fragments.h"
#include "log_lines.h"
#include "rail/control_channel.h"

namespace railyard {
namespace {

using test::Bytes;
using test::fragments;
using test::taken;

class NotificationInboxTest : public testing::Test {
  protected:
    void SetUp() override { log::set_level(log::Level::off); }
    void TearDown() override { log::set_level(log::Level::warn); }
    std::vector<Bytes> cut(const std::string& text, std::uint64_t id = 1, std::uint64_t nonce = 9) {
        OutNotification message;
        message.message = text;
        message.start(sender_, nonce, id, 0);
        return fragments(message, 200);
    }
    const std::string sender_ = "sender";
    NotificationInbox inbox_;
};

TEST_F(NotificationInboxTest, FragmentsComeTogetherInAnyOrder) {
    std::string text(5000, '\0');
    std::mt19937 random(3);
    for (char& c : text)
        c = static_cast<char>(random());
    std::vector<Bytes> parts = cut(text);
    EXPECT_GT(parts.size(), 20u);
    std::shuffle(parts.begin(), parts.end(), random);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        EXPECT_TRUE(inbox_.empty());
        inbox_.on_control(parts[i]);
    }
    const auto got = taken(inbox_);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].agent, "sender");
    EXPECT_EQ(got[0].message, text);
    EXPECT_TRUE(taken(inbox_).empty());
}

/// As when its sender was replaced while it was under way.
TEST_F(NotificationInboxTest, AMessageThatWasDeliveredIsNotTakenAgain) {
    const std::string text(1000, 'x');
    for (const Bytes& part : cut(text, 5))
        inbox_.on_control(part);
    EXPECT_EQ(taken(inbox_).size(), 1u);
    for (const Bytes& part : cut(text, 5))
        inbox_.on_control(part);
    inbox_.on_control(cut("short", 6).front());
    inbox_.on_control(cut("short", 6).front());
    inbox_.on_control(cut("short", 7).front());
    inbox_.on_control(cut("short", 6, 10).front());
    EXPECT_EQ(taken(inbox_).size(), 3u);
}

/// An answer that the fabric lost is waited for for many seconds, and all that comes meanwhile is remembered.
TEST_F(NotificationInboxTest, AMessageThatWasDeliveredLongAgoIsNotTakenAgain) {
    constexpr std::uint64_t others = 10'000;
    const Bytes early = cut("early", 1, 9).front();
    inbox_.on_control(early);
    for (std::uint64_t i = 0; i < others; ++i) {
        inbox_.on_control(cut("of the same", 2 + i, 9).front());
        inbox_.on_control(cut("of others", i, 10 + i % 100).front());
    }
    EXPECT_EQ(taken(inbox_).size(), 1 + 2 * others);
    inbox_.on_control(early);
    for (const Bytes& part : cut(std::string(1000, 'x'), 1, 9))
        inbox_.on_control(part);
    EXPECT_TRUE(taken(inbox_).empty()) << "it was delivered twice";
}

TEST_F(NotificationInboxTest, MessagesOfSeveralSendersMix) {
    const std::string a(1000, 'a'), b(1500, 'b'), c(700, 'c');
    std::vector<Bytes> all;
    for (auto& parts : {cut(a, 1, 1), cut(b, 1, 2), cut(c, 2, 1)})
        all.insert(all.end(), parts.begin(), parts.end());
    std::shuffle(all.begin(), all.end(), std::mt19937(8));
    for (const Bytes& part : all)
        inbox_.on_control(part);
    std::vector<std::string> texts;
    for (const Notification& notification : taken(inbox_))
        texts.push_back(notification.message);
    std::sort(texts.begin(), texts.end());
    EXPECT_EQ(texts, (std::vector<std::string>{a, b, c}));
}

TEST_F(NotificationInboxTest, AMessageCanBeSentAgain) {
    OutNotification message;
    message.message = "again";
    for (std::uint64_t id = 1; id <= 3; ++id) {
        message.start(sender_, 1, id, 0);
        for (const Bytes& part : fragments(message, ControlChannel::fragment_size))
            inbox_.on_control(part);
    }
    EXPECT_EQ(taken(inbox_).size(), 3u);
}

/// One that says that the whole is what has come, where it is more.
TEST_F(NotificationInboxTest, AFragmentWithAnotherTotalEndsNothing) {
    constexpr std::size_t total_at = 29;
    const std::string text(800, 't');
    const std::vector<Bytes> parts = cut(text);
    ASSERT_GT(parts.size(), 3u);
    inbox_.on_control(parts[1]);
    inbox_.on_control(parts[2]);
    const std::size_t header = 39 + sender_.size();
    const auto come = static_cast<std::uint32_t>(parts[1].size() + parts[2].size() - 2 * header);
    Bytes lie = parts[0];
    std::memcpy(lie.data() + total_at, &come, sizeof(come));
    inbox_.on_control(lie);
    EXPECT_TRUE(inbox_.empty()) << "a part of a message was taken for it";
    for (std::size_t i = 0; i < parts.size(); ++i)
        if (i != 1 && i != 2) inbox_.on_control(parts[i]);
    const auto got = taken(inbox_);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].message, text);
}

TEST_F(NotificationInboxTest, HostileFragmentsChangeNothing) {
    const Bytes good = cut("hello").front();
    for (std::size_t size = 0; size < good.size(); ++size) {
        inbox_.on_control({good.data(), size});
    }
    EXPECT_TRUE(inbox_.empty()) << "a truncated fragment was taken for a message";
    std::mt19937 random(11);
    for (int i = 0; i < 50'000; ++i) {
        Bytes bytes = good;
        for (unsigned n = 0; n < 1 + random() % 6; ++n)
            bytes[random() % bytes.size()] = static_cast<std::byte>(random());
        inbox_.on_control(bytes);
    }
    for (const Notification& notification : taken(inbox_))
        EXPECT_LE(notification.message.size(), good.size());
    // A second half that disagrees with the first about the total is refused, and the message still
    // completes.
    const std::string text(500, 't');
    const auto parts = cut(text, 77, 1234);
    auto liar = cut(std::string(400, 'l'), 77, 1234);
    inbox_.on_control(parts[0]);
    inbox_.on_control(liar[1]);
    for (std::size_t i = 1; i < parts.size(); ++i)
        inbox_.on_control(parts[i]);
    const auto got = taken(inbox_);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].message, text);
}

/// The fragment at `offset` of a message that is announced as `total` bytes long.
Bytes lone_fragment(std::uint64_t id, std::uint32_t total, std::uint32_t offset, std::size_t payload = 1) {
    std::string bytes;
    WireWriter writer(bytes);
    writer.number(std::uint16_t{0x5259});
    writer.number(control_version);
    writer.number(static_cast<std::uint8_t>(MessageKind::notify));
    writer.number(std::uint8_t{0});  // not signed
    writer.number(std::uint64_t{66});
    writer.number(std::uint64_t{0});
    writer.number(id);
    writer.number(total);
    writer.number(offset);
    writer.number(std::uint16_t{7});
    bytes += "mallory" + std::string(payload, 'x');
    const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
    return {data, data + bytes.size()};
}

/// A few bytes announce 16 MiB, and their last byte comes first.
TEST_F(NotificationInboxTest, WhatIsAnnouncedTakesNoRoomBeforeItComes) {
    constexpr std::uint32_t total = max_notification;
    for (std::uint64_t id = 0; id < 1000; ++id)
        inbox_.on_control(lone_fragment(id, total, total - 1));
    EXPECT_LT(inbox_.held().unfinished, 1000u * 1024);
    EXPECT_GT(inbox_.held().unfinished, 1000u) << "nothing was taken";
    for (const Bytes& part : cut(std::string(5000, 'h')))
        inbox_.on_control(part);
    EXPECT_EQ(taken(inbox_).size(), 1u) << "others' messages have no room";
}

/// Every second byte: each is a piece of its own, which costs more than its byte.
TEST_F(NotificationInboxTest, ScatteredFragmentsAreCountedWithWhatTheyCost) {
    for (std::uint32_t i = 0; i < 1000; ++i)
        inbox_.on_control(lone_fragment(1, 2000, 2 * i));
    EXPECT_GE(inbox_.held().unfinished, 1000u * FragmentPieces::piece_overhead);
    for (std::uint32_t i = 0; i < 1000; ++i)
        inbox_.on_control(lone_fragment(1, 2000, 2 * i + 1));
    EXPECT_EQ(inbox_.held().unfinished, 0u);
    const auto got = taken(inbox_);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].message, std::string(2000, 'x'));
}

TEST_F(NotificationInboxTest, KeepsNoMoreThanItsLimits) {
    NotificationInbox small({10'000, 10'000, 10'000});
    for (std::uint64_t id = 1; id <= 1000; ++id) {
        small.on_control(lone_fragment(id, 5000, 0, 100));
        EXPECT_LE(small.held().unfinished, 10'000u);
    }
    EXPECT_GT(small.held().unfinished, 9'000u) << "it keeps less than it may";
    for (std::uint64_t id = 2000; id <= 3000; ++id)
        small.on_control(lone_fragment(id, 100, 0, 100));
    EXPECT_LE(small.held().notifications, 10'000u);
    const std::size_t kept = taken(small).size();
    EXPECT_GT(kept, 10u);
    EXPECT_EQ(small.held().notifications, 0u);
    small.on_control(lone_fragment(4000, 100, 0, 100));
    EXPECT_EQ(taken(small).size(), 1u) << "there is room again and it is not used";
    for (std::uint64_t id = 5000; id <= 6000; ++id) {
        Bytes hello = lone_fragment(id, 100, 0, 100);
        hello[3] = static_cast<std::byte>(MessageKind::hello);
        small.on_control(hello);
    }
    EXPECT_LE(small.held().letters, 10'000u);
    Letters letters;
    small.take_letters(letters);
    EXPECT_GT(letters.size(), 10u);
    EXPECT_EQ(small.held().letters, 0u);
}

/// Which kind of message it is, its first fragment says.
TEST_F(NotificationInboxTest, FragmentsOfAnotherKindAreRefused) {
    Bytes rest = lone_fragment(1, 200, 100, 100);
    inbox_.on_control(lone_fragment(1, 200, 0, 100));
    rest[3] = static_cast<std::byte>(MessageKind::hello);
    inbox_.on_control(rest);
    EXPECT_FALSE(inbox_.has_letters());
    EXPECT_TRUE(inbox_.empty());
    inbox_.on_control(lone_fragment(1, 200, 100, 100));
    EXPECT_EQ(taken(inbox_).size(), 1u);
}

struct Heard final : AnswerSink {
    void on_answer(std::uint64_t nonce, const Answer& answer) noexcept override {
        all.emplace_back(nonce, answer.id, answer.status);
    }
    void on_data(std::uint64_t nonce, std::uint64_t id, std::uint32_t total, std::uint32_t offset,
                 std::string_view piece) noexcept override {
        data.emplace_back(nonce, id, total, offset, piece);
    }
    std::vector<std::tuple<std::uint64_t, std::uint64_t, Status>> all;
    std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t, std::string>> data;
};

TEST_F(NotificationInboxTest, LettersThatAreHandedBackComeBeforeOthers) {
    const auto come = [&](const std::string& text, std::uint64_t id) {
        OutNotification message;
        message.kind = MessageKind::request;
        message.message = text;
        message.start(sender_, 9, id, 0);
        for (const Bytes& part : fragments(message, 200))
            inbox_.on_control(part);
    };
    come("first", 1);
    come("second", 2);
    Letters letters;
    const std::size_t held = inbox_.held().letters;
    inbox_.take_letters(letters);
    EXPECT_FALSE(inbox_.has_letters());
    come("third", 3);
    inbox_.put_back(std::move(letters));
    EXPECT_TRUE(inbox_.has_letters());
    EXPECT_GT(inbox_.held().letters, held);
    Letters again;
    inbox_.take_letters(again);
    std::vector<std::string> texts;
    for (const Letter& letter : again)
        texts.push_back(letter.text);
    EXPECT_EQ(texts, (std::vector<std::string>{"first", "second", "third"}));
    EXPECT_EQ(inbox_.held().letters, 0u);
}

/// They go to who waits for them, as often as they come, and are nothing to keep.
TEST_F(NotificationInboxTest, AnswersToEagerWritesArePassedOn) {
    Heard heard;
    OutNotification message;
    message.kind = MessageKind::eager_answer;
    const auto send = [&](std::string text, std::size_t size = 200) {
        message.message = std::move(text);
        message.start(sender_, 9, 0, 0);
        for (const Bytes& fragment : fragments(message, size))
            inbox_.on_control(fragment);
    };
    const std::string good = encode(Answer{4, Status::not_allowed});
    send(good);  // nobody waits
    inbox_.pass_answers_to(&heard);
    send(good);
    send(good);
    send("nonsense");
    send(good + "x");
    send(good, 50);  // in pieces
    ASSERT_EQ(heard.all.size(), 2u);
    EXPECT_EQ(heard.all[0], std::make_tuple(9u, 4u, Status::not_allowed));
    EXPECT_EQ(heard.all[1], heard.all[0]);
    EXPECT_FALSE(inbox_.has_letters());
    EXPECT_EQ(inbox_.held().unfinished, 0u);
}

/// Each fragment by itself, as it comes.
TEST_F(NotificationInboxTest, DataOfEagerReadsIsPassedOn) {
    Heard heard;
    OutNotification message;
    message.kind = MessageKind::eager_data;
    message.message = std::string(300, 'd');
    message.start(sender_, 9, 4, 0);
    const std::vector<Bytes> all = fragments(message, 200);
    ASSERT_GT(all.size(), 1u);
    inbox_.on_control(all[1]);  // nobody waits
    inbox_.pass_answers_to(&heard);
    inbox_.on_control(all[1]);
    inbox_.on_control(all[1]);
    inbox_.on_control(all[0]);
    ASSERT_EQ(heard.data.size(), 3u);
    const auto [nonce, id, total, offset, piece] = heard.data[0];
    EXPECT_EQ(nonce, 9u);
    EXPECT_EQ(id, 4u);
    EXPECT_EQ(total, 300u);
    EXPECT_EQ(offset, std::get<4>(heard.data[2]).size());
    EXPECT_EQ(piece, std::string(piece.size(), 'd'));
    EXPECT_EQ(heard.data[1], heard.data[0]);
    EXPECT_EQ(std::get<3>(heard.data[2]), 0u);
    EXPECT_FALSE(inbox_.has_letters());
    EXPECT_EQ(inbox_.held().unfinished, 0u);
}

/// As where a message goes another way from its start. Other bytes in the place of those that have come are
/// refused.
TEST_F(NotificationInboxTest, AFragmentThatComesTwiceCountsOnce) {
    const test::LogLines log(log::Level::warn);
    const std::string text(900, 'd');
    const auto parts = cut(text, 5);
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        inbox_.on_control(parts[i]);
        inbox_.on_control(parts[i]);
    }
    EXPECT_TRUE(inbox_.empty());
    inbox_.on_control(parts.back());
    const auto got = taken(inbox_);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].message, text);
    EXPECT_EQ(log.count(), 0) << log.all().front();
    inbox_.on_control(cut(text, 6).front());
    inbox_.on_control(cut(std::string(900, 'e'), 6).front());
    EXPECT_EQ(log.count("contradicts"), 1);
}

/// Who has been cut off in the middle of a message sends the rest to nobody.
TEST_F(NotificationInboxTest, WhatNothingMoreComesOfIsDropped) {
    constexpr std::uint64_t second = 1'000'000'000;
    const std::uint64_t begun = now_ns();
    inbox_.on_control(lone_fragment(1, 5000, 0, 1000));
    for (std::uint64_t after = 0; after <= 120; ++after)
        inbox_.drop_stale(begun + after * second);
    EXPECT_GT(inbox_.held().unfinished, 0u) << "the rest may be on its way yet";
    inbox_.on_control(lone_fragment(2, 5000, 0, 1000));
    for (std::uint64_t after = 121; after <= 130; ++after)
        inbox_.drop_stale(begun + after * second);
    EXPECT_EQ(inbox_.held().unfinished, 0u);
    for (const Bytes& part : cut(std::string(5000, 'h')))
        inbox_.on_control(part);
    EXPECT_EQ(taken(inbox_).size(), 1u);
}

/// The rest may lie in a socket.
TEST_F(NotificationInboxTest, NothingIsDroppedRightAfterATimeInWhichNobodyLooked) {
    constexpr std::uint64_t second = 1'000'000'000;
    const std::uint64_t begun = now_ns();
    inbox_.drop_stale(begun);
    inbox_.on_control(lone_fragment(1, 5000, 0, 1000));
    for (std::uint64_t after = 600; after < 603; ++after)
        inbox_.drop_stale(begun + after * second);
    EXPECT_GT(inbox_.held().unfinished, 0u);
    for (std::uint64_t after = 603; after < 613; ++after)
        inbox_.drop_stale(begun + after * second);
    EXPECT_EQ(inbox_.held().unfinished, 0u);
}

}  // namespace
}  // namespace railyard
