#include "common/recent_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "failing_new.h"

namespace railyard {
namespace {

TEST(RecentTable, ForgetsWhatWasNotAskedForLongest) {
    RecentTable<int> table(3, 100);
    EXPECT_TRUE(table.add(1, 10, 1).empty());
    EXPECT_TRUE(table.add(2, 20, 1).empty());
    EXPECT_TRUE(table.add(3, 30, 1).empty());
    ASSERT_TRUE(table.find(1));  // used again
    EXPECT_EQ(table.add(4, 40, 1), std::vector{20});
    EXPECT_EQ(table.find(2), nullptr);
    EXPECT_EQ(table.add(5, 50, 1), std::vector{30});
    for (const auto& [number, value] : {std::pair{1, 10}, {4, 40}, {5, 50}}) {
        ASSERT_TRUE(table.find(static_cast<std::uint64_t>(number))) << number;
        EXPECT_EQ(*table.find(static_cast<std::uint64_t>(number)), value);
    }
    EXPECT_EQ(table.size(), 3u);
}

TEST(RecentTable, ForgetsWhatIsTooMuchTogether) {
    RecentTable<int> table(100, 10);
    EXPECT_TRUE(table.add(1, 10, 4).empty());
    EXPECT_TRUE(table.add(2, 20, 4).empty());
    EXPECT_TRUE(table.weigh(1, 5).empty()) << "9 of 10";
    EXPECT_EQ(table.weigh(1, 8), std::vector{20}) << "the one that was not used for longest";
    EXPECT_TRUE(table.weigh(2, 50).empty()) << "it is not there";
    EXPECT_EQ(table.add(3, 30, 11), std::vector{10}) << "the newest stays, whatever it weighs";
    EXPECT_EQ(table.size(), 1u);
    EXPECT_TRUE(table.remove(3));
    EXPECT_TRUE(table.add(4, 40, 4).empty());
    EXPECT_TRUE(table.add(5, 50, 5).empty());
    EXPECT_EQ(table.add(6, 60, 5), std::vector{40}) << "what is gone weighs nothing";
}

TEST(RecentTable, RangesOfWhatHasAnOrderAreRemoved) {
    using Pair = std::pair<int, int>;
    RecentTable<int, Pair> table(100, 20);
    for (const Pair& key : {Pair{1, 9}, {2, 1}, {2, 3}, {2, 5}, {3, 0}})
        EXPECT_TRUE(table.add(key, key.second, 4).empty());
    EXPECT_EQ(table.weight(), 20u);
    table.remove_between({2, 0}, {2, 5});
    EXPECT_EQ(table.size(), 3u);
    EXPECT_EQ(table.weight(), 12u);
    EXPECT_EQ(table.look({2, 1}), nullptr);
    EXPECT_EQ(table.look({2, 3}), nullptr);
    for (const Pair& key : {Pair{1, 9}, {2, 5}, {3, 0}})
        EXPECT_TRUE(table.look(key)) << key.first;
    table.remove_between({2, 6}, {2, 5});
    EXPECT_EQ(table.size(), 3u) << "nothing lies between";
    EXPECT_EQ(table.add({4, 4}, 4, 12), std::vector{9}) << "the oldest";
}

TEST(RecentTable, HandsOutWhatItForgets) {
    RecentTable<std::shared_ptr<int>> table(1, 10);
    auto first = std::make_shared<int>(1);
    EXPECT_TRUE(table.add(1, first, 1).empty());
    EXPECT_EQ(first.use_count(), 2);
    {
        const auto gone = table.add(2, std::make_shared<int>(2), 1);
        ASSERT_EQ(gone.size(), 1u);
        EXPECT_EQ(gone.front(), first);
    }
    EXPECT_EQ(first.use_count(), 1) << "the table still holds it";
    EXPECT_TRUE(table.remove(2));
    EXPECT_FALSE(table.remove(2));
    EXPECT_EQ(table.size(), 0u);
    EXPECT_TRUE(table.add(2, first, 1).empty()) << "there is room";
}

/// Where whoever asks holds a lock, nothing may be destroyed.
TEST(RecentTable, WhatThereIsNoMemoryToHandOutStays) {
    RecentTable<std::shared_ptr<int>> table(3, 10);
    auto first = std::make_shared<int>(1), second = std::make_shared<int>(2);
    EXPECT_TRUE(table.add(1, first, 1).empty());
    EXPECT_TRUE(table.add(2, second, 1).empty());
    EXPECT_TRUE(table.add(3, nullptr, 1).empty());
    for (const long left : {0, 1}) {
        allocations_left = left;
        const auto gone = table.weigh(3, 10);
        allocations_left = -1;
        EXPECT_EQ(gone.size(), static_cast<std::size_t>(left));
        EXPECT_EQ(first.use_count(), 2);
        EXPECT_EQ(second.use_count(), 2);
    }
    EXPECT_EQ(table.weigh(3, 10), std::vector{second});
    EXPECT_EQ(table.size(), 1u);
    EXPECT_EQ(first.use_count(), 1);
}

}  // namespace
}  // namespace railyard
