#include "engine/notification.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "common/log.h"
#include "common/wire.h"
#include "engine/request.h"
#include "log_lines.h"
#include "rail/control_channel.h"

namespace railyard {
namespace {

using Bytes = std::vector<std::byte>;

std::vector<Bytes> fragments(OutNotification& message, std::size_t size) {
    std::vector<Bytes> out;
    bool more = true;
    while (more) {
        Bytes buffer(size);
        buffer.resize(message.fill(message, buffer));
        out.push_back(std::move(buffer));
        more = message.advance(message);
    }
    return out;
}

std::vector<Notification> taken(NotificationInbox& inbox) {
    std::vector<Notification> out;
    inbox.take(out);
    return out;
}

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
    std::vector<Letter> letters;
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

TEST_F(NotificationInboxTest, AFragmentThatComesTwiceCountsOnce) {
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
}

class SignedMessagesTest : public testing::Test {
  protected:
    void SetUp() override {
        if (!find_libcrypto().functions) GTEST_SKIP() << "no libcrypto: " << find_libcrypto().absent_because;
        log::set_level(log::Level::warn);
    }
    static std::vector<std::string> lines() { return test::LogLines::all(); }
    /// Fragments of a message to the instance `receiver`.
    std::vector<Bytes> cut(const std::string& text, const MessageAuth* auth, std::uint64_t receiver = 5) {
        OutNotification message;
        message.message = text;
        message.start(sender_, 9, ++id_, 0, receiver, auth);
        return fragments(message, 300);
    }
    void feed(const std::vector<Bytes>& parts) {
        for (const Bytes& part : parts)
            inbox_.on_control(part);
    }
    const std::string sender_ = "sender";
    std::uint64_t id_ = 0;
    const MessageAuth ours_{"the secret of this test"}, theirs_{"another secret"};
    NotificationInbox inbox_{{}, 5, &ours_};
    test::LogLines log_;
};

TEST_F(SignedMessagesTest, ArriveWholeAndEveryFragmentIsSigned) {
    const std::string text(1000, 's');
    const auto parts = cut(text, &ours_);
    EXPECT_GT(parts.size(), 4u);
    for (const Bytes& part : parts)
        EXPECT_LE(part.size(), 300u);
    feed(parts);
    const auto got = taken(inbox_);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].message, text);
    EXPECT_TRUE(lines().empty()) << lines().front();
    feed(cut("", &ours_));
    EXPECT_EQ(taken(inbox_).size(), 1u) << "a message without a byte";
}

TEST_F(SignedMessagesTest, OfStrangersAreRefusedWithOneLine) {
    for (int i = 0; i < 100; ++i) {
        feed(cut("not signed", nullptr));
        feed(cut("signed with another secret", &theirs_));
        const Bytes good = cut("mine", &ours_).front();
        for (std::size_t at : {std::size_t{0}, std::size_t{20}, good.size() / 2, good.size() - 1}) {
            Bytes damaged = good;
            damaged[at] ^= std::byte{1};
            inbox_.on_control(damaged);
        }
        inbox_.on_control({good.data(), good.size() - 1});
        inbox_.on_control({good.data(), 10});
    }
    EXPECT_TRUE(inbox_.empty());
    EXPECT_EQ(inbox_.held().unfinished, 0u);
    ASSERT_GE(lines().size(), 1u);
    EXPECT_LE(lines().size(), 5u) << "800 refusals; a busy machine takes some seconds for them";
    EXPECT_NE(lines()[0].find("cluster_secret"), std::string::npos) << lines()[0];
    EXPECT_FALSE(test::LogLines::contain("the secret of this test"));
    feed(cut("mine", &ours_));
    EXPECT_EQ(taken(inbox_).size(), 1u);
}

TEST_F(SignedMessagesTest, AreRefusedWhereThereIsNoSecret) {
    NotificationInbox open({}, 5);
    for (const Bytes& part : cut("signed", &ours_))
        open.on_control(part);
    EXPECT_TRUE(open.empty()) << "its tag would have been taken for text";
    ASSERT_EQ(lines().size(), 1u);
    EXPECT_NE(lines()[0].find("cluster_secret"), std::string::npos) << lines()[0];
}

/// What was recorded on its way to another instance, or to the one that was here before.
TEST_F(SignedMessagesTest, OfAnotherReceiverAreRefused) {
    feed(cut("to another", &ours_, 6));
    feed(cut("to nobody", &ours_, 0));
    EXPECT_TRUE(inbox_.empty());
    ASSERT_EQ(lines().size(), 1u);
    EXPECT_NE(lines()[0].find("another instance"), std::string::npos) << lines()[0];
}

TEST(FragmentPieces, OverlapsAreRefusedAndGapsSeen) {
    const std::string text = "0123456789abcdefghijABCDEFGHIJ!?.,;:-_+*";
    FragmentPieces pieces;
    auto add = [&](std::uint32_t begin, std::uint32_t end) {
        return pieces.add(begin, std::string_view(text).substr(begin, end - begin));
    };
    EXPECT_TRUE(add(10, 20));
    EXPECT_TRUE(add(30, 40));
    const std::size_t held = pieces.held();
    EXPECT_FALSE(add(15, 18));
    EXPECT_FALSE(add(10, 20));
    EXPECT_FALSE(add(5, 11));
    EXPECT_FALSE(add(19, 31));
    EXPECT_FALSE(add(0, 40));
    EXPECT_EQ(pieces.held(), held) << "a refused fragment costs something";
    EXPECT_FALSE(pieces.whole(40));
    EXPECT_TRUE(add(20, 30));
    EXPECT_FALSE(pieces.whole(40));
    EXPECT_TRUE(add(0, 10));
    EXPECT_TRUE(pieces.whole(40));
    EXPECT_FALSE(pieces.whole(41));
    EXPECT_EQ(pieces.take(), text);
}

}  // namespace
}  // namespace railyard
