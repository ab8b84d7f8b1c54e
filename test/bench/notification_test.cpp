#include <gtest/gtest.h>

#include "agent_side.h"
#include "target_notifications.h"

namespace railyard::bench {
namespace {

class NotificationAccountTest : public testing::Test {
  protected:
    NotificationAccountTest() { account_.begin("initiator", 7, 3); }
    NotificationAccount account_;
};

TEST_F(NotificationAccountTest, EachExactlyOnceIsRight) {
    EXPECT_EQ(account_.take("initiator", notification_text(7, 2)), 2u);
    EXPECT_EQ(account_.take("initiator", notification_text(7, 0)), 0u);
    EXPECT_EQ(account_.take("initiator", notification_text(7, 2)), 2u);
    EXPECT_EQ(account_.received(), 3u);
    EXPECT_EQ(account_.wrong({1, 0, 2}), std::nullopt);
}

TEST_F(NotificationAccountTest, LostAndDoubledAreTold) {
    account_.take("initiator", notification_text(7, 1));
    account_.take("initiator", notification_text(7, 1));
    auto doubled = account_.wrong({0, 1, 0});
    ASSERT_TRUE(doubled);
    EXPECT_NE(doubled->find("transfer 1 was posted 1 times"), std::string::npos) << *doubled;
    auto lost = account_.wrong({0, 2, 1});
    ASSERT_TRUE(lost);
    EXPECT_NE(lost->find("announced 0 times"), std::string::npos) << *lost;
}

TEST_F(NotificationAccountTest, SenderPointAndSlotMustBeRight) {
    for (auto [sender, text] : {std::pair<std::string, std::string>{"other", notification_text(7, 0)},
                                {"initiator", notification_text(6, 0)},
                                {"initiator", notification_text(7, 3)},
                                {"initiator", notification_text(7, 0) + "x"},
                                {"initiator", "railyard-bench:7:"},
                                {"initiator", ""}}) {
        account_.begin("initiator", 7, 3);
        EXPECT_EQ(account_.take(sender, text), std::nullopt) << text;
        EXPECT_TRUE(account_.wrong({0, 0, 0})) << text;
    }
}

TEST_F(NotificationAccountTest, BeginForgets) {
    account_.take("other", "");
    account_.begin("initiator", 8, 1);
    EXPECT_EQ(account_.received(), 0u);
    EXPECT_EQ(account_.wrong({0}), std::nullopt);
}

}  // namespace
}  // namespace railyard::bench
