// Room in the inbox for what is to be announced: it is there when it is wanted, or was never promised.
#include "engine/notification_room.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace railyard {
namespace {

class NotificationRoomTest : public testing::Test {
  protected:
    std::vector<Notification> taken() {
        std::vector<Notification> all;
        inbox_.take(all);
        return all;
    }
    NotificationInbox inbox_{{1000, 1000, 1000}};
};

TEST_F(NotificationRoomTest, IsNobodyElsesUntilItIsGivenBack) {
    std::optional<NotificationRoom> first;
    first.emplace(inbox_, "alpha", std::string(400, 'x'));
    ASSERT_TRUE(first->is_kept());
    EXPECT_TRUE(inbox_.empty()) << "it is not there yet";
    EXPECT_FALSE(NotificationRoom(inbox_, "alpha", std::string(400, 'y')).is_kept());
    first.reset();
    EXPECT_EQ(inbox_.held().notifications, 0u);
    EXPECT_TRUE(NotificationRoom(inbox_, "alpha", std::string(400, 'y')).is_kept());
}

/// Also when the application takes what is there before.
TEST_F(NotificationRoomTest, IsCountedUntilWhatIsInItWasTaken) {
    NotificationRoom first(inbox_, "alpha", std::string(400, 'x'));
    const std::size_t held = inbox_.held().notifications;
    EXPECT_GT(held, 400u);
    EXPECT_TRUE(taken().empty());
    EXPECT_EQ(inbox_.held().notifications, held);
    first.put(9);
    EXPECT_FALSE(first.is_kept());
    EXPECT_EQ(inbox_.held().notifications, held);
    const auto got = taken();
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].agent, "alpha");
    EXPECT_EQ(got[0].message, std::string(400, 'x'));
    EXPECT_EQ(inbox_.held().notifications, 0u);
}

}  // namespace
}  // namespace railyard
