#include "engine/recent_table.h"

#include <gtest/gtest.h>

#include <memory>

namespace railyard {
namespace {

TEST(RecentTable, ForgetsWhatWasNotAskedForLongest) {
    RecentTable<int> table(3);
    EXPECT_FALSE(table.add(1, 10));
    EXPECT_FALSE(table.add(2, 20));
    EXPECT_FALSE(table.add(3, 30));
    ASSERT_TRUE(table.find(1));  // used again
    EXPECT_EQ(table.add(4, 40), std::optional(20));
    EXPECT_EQ(table.find(2), nullptr);
    EXPECT_EQ(table.add(5, 50), std::optional(30));
    for (const auto& [number, value] : {std::pair{1, 10}, {4, 40}, {5, 50}}) {
        ASSERT_TRUE(table.find(static_cast<std::uint64_t>(number))) << number;
        EXPECT_EQ(*table.find(static_cast<std::uint64_t>(number)), value);
    }
    EXPECT_EQ(table.size(), 3u);
}

TEST(RecentTable, HandsOutWhatItForgets) {
    RecentTable<std::shared_ptr<int>> table(1);
    auto first = std::make_shared<int>(1);
    EXPECT_FALSE(table.add(1, first));
    EXPECT_EQ(first.use_count(), 2);
    {
        const auto gone = table.add(2, std::make_shared<int>(2));
        ASSERT_TRUE(gone);
        EXPECT_EQ(*gone, first);
    }
    EXPECT_EQ(first.use_count(), 1) << "the table still holds it";
    EXPECT_TRUE(table.remove(2));
    EXPECT_FALSE(table.remove(2));
    EXPECT_EQ(table.size(), 0u);
    EXPECT_FALSE(table.add(2, first)) << "there is room";
}

}  // namespace
}  // namespace railyard
