#include "engine/message_ids.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

namespace railyard {
namespace {

TEST(MessageIds, CountWithoutAGapToEachInstance) {
    MessageCounters counters;
    const std::uint64_t to_one = counters.of(1)->next(), to_other = counters.of(2)->next();
    EXPECT_NE(to_one, to_other);
    for (std::uint64_t i = 1; i < 1000; ++i) {
        EXPECT_EQ(counters.of(1)->next(), to_one + i) << "met again";
        EXPECT_EQ(counters.of(2)->next(), to_other + i);
    }
}

TEST(MessageIds, AreNeverGivenTwice) {
    MessageCounters counters(2);
    const auto kept = counters.of(1);  // by a message under way, say
    std::set<std::uint64_t> seen{kept->next()};
    for (std::uint64_t nonce = 1; nonce <= 300; ++nonce) {
        for (const auto& ids : {counters.of(nonce), counters.of(1 + nonce % 3), kept})
            EXPECT_TRUE(seen.insert(ids->next()).second) << nonce;
    }
}

TEST(MessageIds, GoOnFromAnotherBaseWhenOneIsUsedUp) {
    MessageCounters counters;
    const auto ids = counters.of(1), others = counters.of(2);
    constexpr std::uint64_t of_base = std::uint64_t{1} << MessageIds::base_bits;
    const std::uint64_t first = ids->next();
    std::uint64_t last = first;
    for (std::uint64_t i = 1; i < of_base; ++i)
        last = ids->next();
    EXPECT_EQ(last, first + of_base - 1);
    const std::uint64_t next = ids->next();
    EXPECT_GT(next, last + 1);
    EXPECT_GT(next, others->next() + of_base - 1);
}

TEST(MessageIds, OfSeveralThreadsDiffer) {
    MessageCounters counters;
    constexpr std::size_t threads = 4, each = 20'000;
    std::vector<std::vector<std::uint64_t>> given(threads);
    std::vector<std::thread> workers;
    for (auto& mine : given) {
        workers.emplace_back([&] {
            const auto ids = counters.of(1);
            for (std::size_t i = 0; i < each; ++i)
                mine.push_back(ids->next());
        });
    }
    for (std::thread& worker : workers)
        worker.join();
    std::vector<std::uint64_t> all;
    for (const auto& mine : given)
        all.insert(all.end(), mine.begin(), mine.end());
    std::sort(all.begin(), all.end());
    ASSERT_EQ(all.size(), threads * each);
    for (std::size_t i = 1; i < all.size(); ++i)
        ASSERT_EQ(all[i], all[0] + i);
}

}  // namespace
}  // namespace railyard
