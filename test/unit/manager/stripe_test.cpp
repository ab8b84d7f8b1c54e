#include "manager/stripe.h"

#include <gtest/gtest.h>

#include <random>

#include "common/status.h"

namespace railyard {
namespace {

constexpr std::uint64_t mebi = 1 << 20;

StripeRules rules(std::size_t rails, std::uint64_t threshold = 0, std::uint64_t chunk_size = 0,
                  std::uint64_t max_chunk = std::uint64_t{1} << 30) {
    return {rails, threshold, chunk_size, max_chunk};
}

/// Every byte of every piece exactly once, in order, and nothing else.
void expect_exact(const std::vector<Piece>& pieces, const Stripes& stripes) {
    std::size_t at = 0;
    for (const Piece& piece : pieces) {
        std::uint64_t done = 0;
        while (done < piece.length) {
            ASSERT_LT(at, stripes.chunks.size());
            const Chunk& chunk = stripes.chunks[at++];
            ASSERT_EQ(chunk.local, piece.local + done);
            ASSERT_EQ(chunk.remote, piece.remote + done);
            ASSERT_EQ(chunk.local_region, piece.local_region);
            ASSERT_EQ(chunk.remote_region, piece.remote_region);
            ASSERT_GT(chunk.length, 0u);
            done += chunk.length;
        }
        ASSERT_EQ(done, piece.length);
    }
    EXPECT_EQ(at, stripes.chunks.size());
}

TEST(Stripe, EveryByteOnceAtAnyLengthAndRailCount) {
    std::mt19937_64 random(1);
    for (int round = 0; round < 3000; ++round) {
        std::vector<Piece> pieces;
        for (std::uint64_t i = 0; i < 1 + random() % 5; ++i) {
            const std::uint64_t scale = std::uint64_t{1} << (random() % 25);
            pieces.push_back(
                {random() % mebi, random() % mebi, random() % scale, static_cast<std::uint32_t>(i), 7});
        }
        const StripeRules given = rules(1 + random() % 32, random() % mebi,
                                        random() % 3 ? 0 : 1 + random() % 100'000, 1 + random() % (4 * mebi));
        const Stripes stripes = stripe(pieces, given);
        expect_exact(pieces, stripes);
        for (const Chunk& chunk : stripes.chunks)
            ASSERT_LE(chunk.length, given.max_chunk);
    }
}

TEST(Stripe, SmallTransfersStayWhole) {
    const std::vector<Piece> pieces = {{0, 0, 100'000, 0, 0}};
    const Stripes stripes = stripe(pieces, rules(4, 256 << 10));
    EXPECT_FALSE(stripes.striped);
    EXPECT_EQ(stripes.chunks.size(), 1u);
}

TEST(Stripe, LargeOnesAreSharedOutEvenlyWithAlignedCuts) {
    const std::vector<Piece> pieces = {{0, 0, 16 * mebi, 0, 0}};
    const Stripes stripes = stripe(pieces, rules(4, 256 << 10));
    EXPECT_TRUE(stripes.striped);
    EXPECT_EQ(stripes.chunks.size(), 32u);
    for (const Chunk& chunk : stripes.chunks) {
        EXPECT_EQ(chunk.remote % 128, 0u);
        EXPECT_EQ(chunk.length, mebi / 2);
    }
}

TEST(Stripe, CutsFallOnAlignedTargetAddresses) {
    const std::vector<Piece> pieces = {{3, 1000, 2 * mebi + 77, 0, 0}};
    const Stripes stripes = stripe(pieces, rules(4));
    ASSERT_GT(stripes.chunks.size(), 1u);
    for (std::size_t i = 1; i < stripes.chunks.size(); ++i)
        EXPECT_EQ(stripes.chunks[i].remote % 128, 0u);
}

TEST(Stripe, WhatUnalignedTargetsLeaveAtTheEndIsNoChunk) {
    for (std::uint64_t size : {mebi, 4 * mebi, 16 * mebi}) {
        const std::size_t even = stripe(std::vector<Piece>{{0, 0, size, 0, 0}}, rules(4)).chunks.size();
        for (std::uint64_t offset : {1, 16, 127}) {
            const std::vector<Piece> pieces = {{0, offset, size, 0, 0}};
            const Stripes stripes = stripe(pieces, rules(4));
            EXPECT_EQ(stripes.chunks.size(), even) << offset;
            EXPECT_EQ(stripes.share, even / 4) << offset;
            expect_exact(pieces, stripes);
        }
    }
}

TEST(Stripe, AChunkSizeThatWasAskedForHoldsOfTheLastOneToo) {
    const std::vector<Piece> pieces = {{0, 16, mebi, 0, 0}};
    for (const StripeRules& given : {rules(4, 0, 64 << 10), rules(4, 0, 0, 64 << 10)}) {
        for (const Chunk& chunk : stripe(pieces, given).chunks)
            EXPECT_LE(chunk.length, 64u << 10);
    }
}

TEST(Stripe, AChunkSizeThatWasAskedForHoldsOnOneRailToo) {
    const StripeRules given = rules(1, 256 << 10, 64 << 10);
    const std::vector<Piece> block = {{0, 0, mebi, 0, 0}}, small = {{0, 0, 100'000, 0, 0}};
    EXPECT_FALSE(stripe(block, given).striped);
    EXPECT_EQ(stripe(block, given).chunks.size(), 16u);
    EXPECT_EQ(stripe(small, given).chunks.size(), 1u);
    EXPECT_EQ(stripe(block, rules(1, 256 << 10)).chunks.size(), 1u);
}

TEST(Stripe, ManyDescriptorsAreStripedByTheirSum) {
    const std::vector<Piece> pieces(1000, Piece{0, 0, 4096, 0, 0});
    const Stripes stripes = stripe(pieces, rules(4, 256 << 10));
    EXPECT_TRUE(stripes.striped);
    EXPECT_EQ(stripes.chunks.size(), 1000u);
    EXPECT_EQ(stripes.run_length, 32u);
}

TEST(Stripe, FewSmallChunksKeepTheirDoorbellsAndLeaveRailsOut) {
    const std::vector<Piece> pieces(64, Piece{0, 0, 4096, 0, 0});
    EXPECT_EQ(stripe(pieces, rules(32)).run_length, 16u);
}

TEST(Stripe, EveryRailGetsAsManyChunks) {
    const std::vector<Piece> pieces = {{0, 0, 80'000'019, 0, 0}};
    EXPECT_EQ(stripe(pieces, rules(32)).chunks.size(), 160u);
}

TEST(Stripe, NoRailMayHoldMoreThanItsShare) {
    const std::vector<Piece> pieces = {{0, 0, 64 * mebi, 0, 0}};
    const Stripes stripes = stripe(pieces, rules(32));
    EXPECT_EQ(stripes.chunks.size(), 128u);
    EXPECT_EQ(stripes.share, 4u);
    EXPECT_EQ(stripe(pieces, rules(1)).share, UINT32_MAX);
}

/// So that a slow rail can have less than a fast one; but no chunk is smaller than pays.
TEST(Stripe, ABlockHasSeveralChunksForEachRail) {
    for (const auto& [size, chunks] : {std::pair{mebi, 4u}, std::pair{2 * mebi, 8u}, std::pair{4 * mebi, 16u},
                                       std::pair{8 * mebi, 16u}, std::pair{16 * mebi, 32u}}) {
        const std::vector<Piece> pieces = {{0, 0, size, 0, 0}};
        EXPECT_EQ(stripe(pieces, rules(4)).chunks.size(), chunks) << size;
    }
}

TEST(Stripe, WhereRailsAreAlikeABlockHasNoMoreChunksThanTheyNeed) {
    StripeRules given = rules(2);
    given.chunks_a_rail = 1;
    for (const auto& [size, chunks] : {std::pair{mebi / 4, 1u}, std::pair{mebi / 2, 2u}, std::pair{mebi, 2u},
                                       std::pair{2 * mebi, 4u}, std::pair{16 * mebi, 32u}}) {
        const std::vector<Piece> pieces = {{0, 0, size, 0, 0}};
        EXPECT_EQ(stripe(pieces, given).chunks.size(), chunks) << size;
    }
}

TEST(Stripe, FewLargerChunksGoToManyRails) {
    const std::vector<Piece> pieces(64, Piece{0, 0, 64 << 10, 0, 0});
    EXPECT_EQ(stripe(pieces, rules(32)).run_length, 4u);
}

TEST(Stripe, RunsAreShortWhereChunksAreLarge) {
    const std::vector<Piece> pieces = {{0, 0, 64 * mebi, 0, 0}};
    EXPECT_EQ(stripe(pieces, rules(4, 0, 4 * mebi)).run_length, 1u);
}

TEST(Stripe, NothingGivesNothing) {
    EXPECT_TRUE(stripe({}, rules(4)).chunks.empty());
    const std::vector<Piece> empty = {{1, 1, 0, 0, 0}};
    EXPECT_TRUE(stripe(empty, rules(4)).chunks.empty());
}

TEST(Stripe, AbsurdCountsAreRefused) {
    const std::vector<Piece> pieces = {{0, 0, std::uint64_t{1} << 40, 0, 0}};
    EXPECT_THROW(static_cast<void>(stripe(pieces, rules(2, 0, 128))), Error);
}

}  // namespace
}  // namespace railyard
