#include "engine/notification.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "common/log.h"
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

TEST(ByteRanges, OverlapsAreRefusedAndGapsSeen) {
    ByteRanges ranges;
    EXPECT_TRUE(ranges.add(10, 20));
    EXPECT_TRUE(ranges.add(30, 40));
    EXPECT_FALSE(ranges.add(15, 18));
    EXPECT_FALSE(ranges.add(5, 11));
    EXPECT_FALSE(ranges.add(19, 31));
    EXPECT_FALSE(ranges.whole(40));
    EXPECT_TRUE(ranges.add(20, 30));
    EXPECT_FALSE(ranges.whole(40));
    EXPECT_TRUE(ranges.add(0, 10));
    EXPECT_TRUE(ranges.whole(40));
    EXPECT_FALSE(ranges.whole(41));
}

}  // namespace
}  // namespace railyard
