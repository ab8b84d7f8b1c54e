#include "manager/lane_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "common/status.h"

namespace railyard {
namespace {

const StripeRules uncut{0, 0, 0, UINT32_MAX};

TEST(LanePlan, EqualSetsPairOneToOne) {
    EXPECT_EQ(pair_rails({4, 5, 7}, {1, 2, 9}), (std::vector<RailPair>{{4, 1}, {5, 2}, {7, 9}}));
}

TEST(LanePlan, FewerOfOursSpreadOverTheirs) {
    EXPECT_EQ(pair_rails({0, 1}, {0, 1, 2, 3, 4, 5, 6, 7}), (std::vector<RailPair>{{0, 0}, {1, 4}}));
}

/// The rails of two interfaces, two on each at one side: those of one network stay together.
TEST(LanePlan, InOrderNoneCrossesNetworks) {
    const auto in_order = [](std::size_t ours, std::size_t theirs) {
        return pair_rails(rail_range(ours), rail_range(theirs), Pairing::in_order);
    };
    EXPECT_EQ(in_order(2, 4), (std::vector<RailPair>{{0, 0}, {1, 1}}));
    EXPECT_EQ(in_order(4, 2), (std::vector<RailPair>{{0, 0}, {1, 1}, {2, 0}, {3, 1}}));
    for (std::size_t ours = 3; ours <= 12; ours += 3) {
        for (std::size_t theirs = 3; theirs <= 12; theirs += 3) {
            for (const RailPair pair : in_order(ours, theirs))
                EXPECT_EQ(pair.local % 3, pair.remote % 3) << ours << " and " << theirs;
        }
    }
}

TEST(LanePlan, MoreOfOursShareTheirsEvenly) {
    std::vector<int> uses(4);
    for (const RailPair pair : pair_rails(rail_range(32), rail_range(4)))
        ++uses[pair.remote];
    EXPECT_EQ(uses, (std::vector<int>{8, 8, 8, 8}));
}

TEST(LanePlan, PiecesOfEqualRailsShareALane) {
    const RailSet near{0, 1}, also_near{0, 1}, far{2, 3}, theirs{5};
    const std::vector<const RailSet*> locals{&near, &also_near, &far}, remotes{&theirs};
    std::vector<Piece> pieces;
    for (std::uint32_t i = 0; i < 9; ++i)
        pieces.push_back({0x1000ull * i, 0x1000ull * i, 0x1000, i % 3, 0});
    const std::vector<LanePlan> lanes = plan_lanes(pieces, locals, remotes, uncut);
    ASSERT_EQ(lanes.size(), 2u);
    EXPECT_EQ(lanes[0].rails, (std::vector<RailPair>{{0, 5}, {1, 5}}));
    EXPECT_EQ(lanes[0].stripes.total_bytes, 6 * 0x1000u);
    EXPECT_EQ(lanes[1].rails, (std::vector<RailPair>{{2, 5}, {3, 5}}));
    EXPECT_EQ(lanes[1].stripes.total_bytes, 3 * 0x1000u);
}

TEST(LanePlan, EveryByteIsInOneLaneWhateverTheRegions) {
    std::mt19937 random(7);
    for (int round = 0; round < 200; ++round) {
        std::vector<RailSet> sets(1 + random() % 5);
        for (RailSet& set : sets)
            set = rail_range(1 + random() % 32);
        std::vector<const RailSet*> locals;
        for (const RailSet& set : sets)
            locals.push_back(&set);
        std::vector<Piece> pieces;
        std::uint64_t at = 0;
        for (std::uint32_t i = 0; i < 1 + random() % 40; ++i) {
            const std::uint64_t length = random() % 3 ? random() % (3 << 20) : 0;
            pieces.push_back({at, at, length, static_cast<std::uint32_t>(random() % sets.size()),
                              static_cast<std::uint32_t>(random() % sets.size())});
            at += length;
        }
        std::vector<std::pair<std::uint64_t, std::uint32_t>> covered;
        for (const LanePlan& lane : plan_lanes(pieces, locals, locals, uncut)) {
            for (const Chunk& chunk : lane.stripes.chunks) {
                covered.emplace_back(chunk.local, chunk.length);
                EXPECT_EQ(locals[chunk.local_region]->size(), lane.rails.size());
            }
        }
        std::sort(covered.begin(), covered.end());
        std::uint64_t end = 0;
        for (const auto& [start, length] : covered) {
            ASSERT_EQ(start, end);
            end = start + length;
        }
        EXPECT_EQ(end, at);
    }
}

TEST(LanePlan, MemoryOnNoRailIsRefusedUnlessNothingOfItMoves) {
    const RailSet none, some{0};
    const std::vector<const RailSet*> locals{&none, &some};
    const Piece empty{0, 0, 0, 0, 0}, full{0, 0, 8, 0, 0};
    EXPECT_TRUE(plan_lanes(std::span(&empty, 1), locals, locals, uncut).empty());
    EXPECT_THROW(static_cast<void>(plan_lanes(std::span(&full, 1), locals, locals, uncut)), Error);
}

}  // namespace
}  // namespace railyard
