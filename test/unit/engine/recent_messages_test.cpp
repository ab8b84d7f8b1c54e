#include "engine/recent_messages.h"

#include <gtest/gtest.h>

namespace railyard {
namespace {

TEST(RecentMessages, KnowsTheLastThousandsAndNoOthers) {
    RecentMessages recent;
    EXPECT_FALSE(recent.contains(0, 0));
    constexpr std::uint64_t last = 100'000;
    for (std::uint64_t id = 1; id <= last; ++id) {
        ASSERT_FALSE(recent.contains(7, id)) << id;
        recent.add(7, id);
        ASSERT_TRUE(recent.contains(7, id)) << id;
    }
    // What may be under way at once is far less than that.
    for (std::uint64_t id = last - 300; id <= last; ++id)
        ASSERT_TRUE(recent.contains(7, id)) << id;
    EXPECT_FALSE(recent.contains(8, last));
    EXPECT_FALSE(recent.contains(7, 1)) << "it would grow for ever";
}

}  // namespace
}  // namespace railyard
