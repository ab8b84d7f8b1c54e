#include "common/latency_histogram.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace railyard {
namespace {

std::size_t bucket_of(std::uint64_t ns) {
    LatencyHistogram histogram;
    histogram.add(ns);
    const LatencyCounts counts = histogram.counts();
    EXPECT_EQ(counts.count(), 1u);
    EXPECT_EQ(counts.sum_ns, ns);
    std::size_t bucket = 0;
    while (counts.counts[bucket] == 0)
        ++bucket;
    return bucket;
}

TEST(LatencyHistogram, ALimitBelongsToItsBucket) {
    EXPECT_EQ(bucket_of(0), 0u);
    EXPECT_EQ(bucket_of(1), 0u);
    for (std::size_t i = 0; i + 1 < LatencyCounts::buckets; ++i) {
        EXPECT_EQ(bucket_of(LatencyCounts::limit_ns(i)), i);
        EXPECT_EQ(bucket_of(LatencyCounts::limit_ns(i) + 1), i + 1);
    }
    EXPECT_EQ(bucket_of(UINT64_MAX), LatencyCounts::buckets - 1);
    EXPECT_EQ(LatencyCounts::limit_ns(0), 1024u);
}

TEST(LatencyHistogram, PercentilesLieInTheirBuckets) {
    LatencyCounts counts;
    EXPECT_EQ(counts.percentile_ns(0.5), 0);
    counts.counts[3] = 100;  // 4096 to 8192
    EXPECT_DOUBLE_EQ(counts.percentile_ns(0.5), 6144);
    EXPECT_DOUBLE_EQ(counts.percentile_ns(1), 8192);
    counts.counts[5] = 1;
    EXPECT_LE(counts.percentile_ns(0.99), 8192);
    EXPECT_GT(counts.percentile_ns(1), 16384);
    LatencyCounts slow;
    slow.counts.back() = 1;
    EXPECT_DOUBLE_EQ(slow.percentile_ns(0.5), 8589934592.0) << "the last limit there is";
}

TEST(LatencyHistogram, NothingIsLostBetweenThreads) {
    LatencyHistogram histogram;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&histogram] {
            for (std::uint64_t i = 1; i <= 20'000; ++i)
                histogram.add(i);
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(histogram.counts().count(), 80'000u);
    EXPECT_EQ(histogram.counts().sum_ns, 4u * 20'000u * 20'001u / 2);
}

}  // namespace
}  // namespace railyard
