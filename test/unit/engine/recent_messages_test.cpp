#include "engine/recent_messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

namespace railyard {
namespace recent_messages_test {

using Pair = std::pair<std::uint64_t, std::uint64_t>;

/// A sender that has been replaced sends again what left many seconds ago.
TEST(RecentMessages, KnowsEveryMessageOfEverySender) {
    RecentMessages messages;
    EXPECT_FALSE(messages.contains(0, 0));
    constexpr std::uint64_t last = 100'000, senders = 20;
    for (std::uint64_t id = 1; id <= last; ++id) {
        const std::uint64_t nonce = id % senders;
        ASSERT_FALSE(messages.contains(nonce, id / senders)) << id;
        messages.add(nonce, id / senders);
    }
    for (std::uint64_t id = 1; id <= last; ++id)
        ASSERT_TRUE(messages.contains(id % senders, id / senders)) << id;
    EXPECT_FALSE(messages.contains(1, last));
    EXPECT_FALSE(messages.contains(senders, 1));
    EXPECT_EQ(messages.senders(), senders);
    EXPECT_EQ(messages.shared(), 0u) << "it would grow for ever";
}

TEST(RecentMessages, TakesNumbersInAnyOrder) {
    std::mt19937_64 random(5);
    for (const std::uint64_t base : {std::uint64_t{0}, UINT64_MAX - 299}) {
        std::vector<std::uint64_t> ids(300);
        std::iota(ids.begin(), ids.end(), base);
        std::shuffle(ids.begin(), ids.end(), random);
        RecentMessages messages;
        std::set<std::uint64_t> received;
        for (const std::uint64_t id : ids) {
            messages.add(7, id);
            received.insert(id);
            for (const std::uint64_t other : ids)
                ASSERT_EQ(messages.contains(7, other), received.contains(other)) << other;
        }
        EXPECT_FALSE(messages.contains(7, base - 1));
        EXPECT_FALSE(messages.contains(7, base + 300));
        EXPECT_EQ(messages.shared(), 0u) << "no gap is left, and its room is";
    }
}

/// Some messages are given up: their numbers never come.
TEST(RecentMessages, SaysOfWhatItIsSure) {
    RecentMessages messages;
    EXPECT_EQ(messages.has_come(7, 1), std::nullopt) << "nothing has";
    for (std::uint64_t id = 1; id <= 1024; ++id)
        messages.add(7, 2 * id);
    EXPECT_EQ(messages.has_come(7, 2), true);
    EXPECT_EQ(messages.has_come(7, 3), false);
    messages.add(7, 2050);  // closes the oldest gap
    EXPECT_TRUE(messages.contains(7, 3)) << "which has not come";
    for (const std::uint64_t unsure : {1u, 2u, 3u, 4u})
        EXPECT_EQ(messages.has_come(7, unsure), std::nullopt) << unsure;
    EXPECT_EQ(messages.has_come(7, 5), false);
    EXPECT_EQ(messages.has_come(7, 2050), true);
}

TEST(RecentMessages, GapsStayOpenUpToAThousandAndTheOldestIsClosedFirst) {
    RecentMessages messages;
    for (std::uint64_t id = 0; id < 1024; ++id)
        messages.add(7, 2 * id);
    for (std::uint64_t id = 0; id < 1023; ++id) {
        ASSERT_TRUE(messages.contains(7, 2 * id));
        ASSERT_FALSE(messages.contains(7, 2 * id + 1));
    }
    messages.add(7, 2048);
    EXPECT_TRUE(messages.contains(7, 1)) << "the oldest";
    EXPECT_FALSE(messages.contains(7, 3));
    EXPECT_TRUE(messages.contains(7, 2048));
    messages.add(7, 3);  // two runs become one: room again
    messages.add(7, 2050);
    EXPECT_FALSE(messages.contains(7, 5));
}

TEST(RecentMessages, ForgetsTheSenderNotHeardOfForLongest) {
    RecentMessages messages({.senders = 3});
    for (std::uint64_t nonce = 1; nonce <= 3; ++nonce)
        messages.add(nonce, 1);
    EXPECT_TRUE(messages.contains(1, 1));  // heard of again
    messages.add(4, 1);
    EXPECT_FALSE(messages.contains(2, 1));
    for (const std::uint64_t nonce : {1, 3, 4})
        EXPECT_TRUE(messages.contains(nonce, 1)) << nonce;
    EXPECT_EQ(messages.senders(), 3u);
}

/// Whatever numbers come: what was received stays known, and only whoever leaves gaps loses by it.
TEST(RecentMessages, HostileNumbersStayWithinTheBounds) {
    const RecentMessages::Limits limits{.senders = 64, .of_sender = 256, .granted = 8, .shared = 2048};
    RecentMessages messages(limits);
    std::mt19937_64 random(11);
    std::set<Pair> received;
    for (int i = 0; i < 100'000; ++i) {
        const std::uint64_t nonce = random() % 32;
        const std::uint64_t id = random() >> (random() % 64);
        if (!messages.contains(nonce, id)) messages.add(nonce, id);
        received.insert({nonce, id});
        ASSERT_LE(messages.shared(), limits.shared);
    }
    EXPECT_GT(messages.shared(), limits.shared / 2) << "it keeps less than it may";
    for (const auto& [nonce, id] : received)
        ASSERT_TRUE(messages.contains(nonce, id)) << nonce << " " << id;
    // An honest one has its own room: seven are late.
    for (std::uint64_t id = 0; id < 16; id += 2)
        messages.add(100, id);
    for (std::uint64_t id = 0; id < 14; ++id)
        EXPECT_EQ(messages.contains(100, id), id % 2 == 0) << id;
    // Newer senders take the places of all these, and their room is given back.
    for (std::uint64_t nonce = 1000; nonce < 1000 + limits.senders; ++nonce)
        messages.add(nonce, 1);
    EXPECT_EQ(messages.senders(), limits.senders);
    EXPECT_EQ(messages.shared(), 0u);
}

}  // namespace recent_messages_test
}  // namespace railyard
