// Messages with a secret: whose are taken, and whose are refused.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/libcrypto.h"
#include "common/log.h"
#include "engine/message_auth.h"
#include "engine/notification.h"
#include "fragments.h"
#include "log_lines.h"

namespace railyard {
namespace signed_messages_test {

using test::Bytes;
using test::fragments;
using test::taken;

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

}  // namespace signed_messages_test
}  // namespace railyard
