// What arrives of the grains of one source.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "flow/grain_ledger.h"
#include "model.h"

namespace railyard::flow {
namespace {

std::vector<std::uint32_t> units_of(const GrainGeometry& geometry) {
    std::vector<std::uint32_t> units(geometry.units());
    std::iota(units.begin(), units.end(), 0u);
    return units;
}

/// All units of a round in order; true when the last one made it whole and no other one did.
bool take_all(GrainLedger& ledger, std::uint32_t index, std::uint32_t round) {
    const std::uint32_t units = ledger.geometry().units();
    bool early = false;
    for (std::uint32_t unit = 0; unit + 1 < units; ++unit)
        early = ledger.take({0, round, index, unit}) || early;
    return ledger.take({0, round, index, units - 1}) && !early;
}

TEST(GrainLedger, IsWholeWithTheLastUnitInAnyOrder) {
    std::mt19937 random(1);
    for (const std::uint32_t count : {1u, 2u, 63u, 64u, 65u, 128u, 129u, 1000u, 4096u}) {
        GrainLedger ledger(GrainGeometry(3, count, 1, 1));
        std::vector<std::uint32_t> units = units_of(ledger.geometry());
        ASSERT_EQ(units.size(), count);
        for (std::uint32_t round = 1; round <= 3; ++round) {
            for (std::uint32_t index = 0; index < 3; ++index) {
                std::shuffle(units.begin(), units.end(), random);
                for (const std::uint32_t unit : units)
                    EXPECT_EQ(ledger.take({0, round, index, unit}), unit == units.back()) << count;
                EXPECT_EQ(ledger.round(index), round);
            }
        }
        EXPECT_EQ(ledger.lost(), 0u);
    }
}

TEST(GrainLedger, KnowsTheUnitsOfAShortLastSlice) {
    GrainLedger ledger(GrainGeometry(1, 25, 3, 4));  // slices of 9, 9 and 7 bytes: 3, 3 and 2 units
    ASSERT_EQ(ledger.geometry().units(), 8u);
    EXPECT_FALSE(ledger.take({0, 1, 0, 8}));
    EXPECT_TRUE(take_all(ledger, 0, 1));
}

TEST(GrainLedger, DuplicatesCountOnce) {
    GrainLedger ledger(GrainGeometry(1, 3, 1, 1));
    for (int i = 0; i < 5; ++i)
        EXPECT_FALSE(ledger.take({0, 1, 0, 0}));
    for (int i = 0; i < 5; ++i)
        EXPECT_FALSE(ledger.take({0, 1, 0, 2}));
    EXPECT_TRUE(ledger.take({0, 1, 0, 1}));
    for (std::uint32_t unit = 0; unit < 3; ++unit)
        EXPECT_FALSE(ledger.take({0, 1, 0, unit})) << "it is announced once";
    EXPECT_EQ(ledger.lost(), 0u);
    EXPECT_EQ(ledger.round(0), 1u);
}

TEST(GrainLedger, UnitsOfEarlierRoundsAreDropped) {
    GrainLedger ledger(GrainGeometry(1, 2, 1, 1));
    EXPECT_FALSE(ledger.take({0, 1, 0, 0}));
    EXPECT_FALSE(ledger.take({0, 2, 0, 0}));
    EXPECT_FALSE(ledger.take({0, 1, 0, 1})) << "late";
    EXPECT_FALSE(ledger.take({0, 1, 0, 0}));
    EXPECT_EQ(ledger.round(0), 2u);
    EXPECT_TRUE(ledger.take({0, 2, 0, 1}));
    EXPECT_FALSE(ledger.take({0, 1, 0, 1}));
    EXPECT_EQ(ledger.lost(), 1u);
}

TEST(GrainLedger, NothingOfATornRoundStays) {
    GrainLedger ledger(GrainGeometry(1, 130, 1, 1));
    for (std::uint32_t unit = 0; unit < 129; ++unit)
        EXPECT_FALSE(ledger.take({0, 1, 0, unit}));
    EXPECT_FALSE(ledger.take({0, 2, 0, 129}));
    EXPECT_EQ(ledger.lost(), 1u);
    for (std::uint32_t unit = 0; unit < 128; ++unit)
        EXPECT_FALSE(ledger.take({0, 2, 0, unit}));
    EXPECT_TRUE(ledger.take({0, 2, 0, 128}));
}

TEST(GrainLedger, SkippedAndTornRoundsAreLost) {
    GrainLedger ledger(GrainGeometry(2, 2, 1, 1));
    EXPECT_TRUE(take_all(ledger, 0, 1));
    EXPECT_EQ(ledger.lost(), 0u);
    EXPECT_TRUE(take_all(ledger, 0, 2));
    EXPECT_EQ(ledger.lost(), 0u);
    EXPECT_TRUE(take_all(ledger, 0, 6));  // 3, 4 and 5
    EXPECT_EQ(ledger.lost(), 3u);
    EXPECT_FALSE(ledger.take({0, 7, 0, 0}));
    EXPECT_EQ(ledger.lost(), 3u) << "it may still come";
    EXPECT_FALSE(ledger.take({0, 9, 0, 0}));  // 7 and 8
    EXPECT_EQ(ledger.lost(), 5u);
    EXPECT_TRUE(take_all(ledger, 1, 3));  // 1 and 2 of the other grain
    EXPECT_EQ(ledger.lost(), 7u);
    EXPECT_EQ(ledger.round(0), 9u);
    EXPECT_EQ(ledger.round(1), 3u);
}

TEST(GrainLedger, RoundsGoOnWhereTheirLowBitsBeginAgain) {
    const GrainGeometry geometry(16384, 64, 1, 1);
    ASSERT_EQ(geometry.bits().round_bits(), 8u);
    GrainLedger ledger(geometry);
    for (std::uint32_t round = 1; round <= 2000; ++round) {
        EXPECT_TRUE(take_all(ledger, 5, round & 255)) << round;
        EXPECT_FALSE(ledger.take({0, (round - 1) & 255, 5, 0}));
        EXPECT_EQ(ledger.round(5), round);
    }
    EXPECT_EQ(ledger.lost(), 0u);
    EXPECT_EQ(ledger.round(4), 0u);
}

TEST(GrainLedger, BitsAboveThoseOfRoundsDoNotMatter) {
    GrainLedger ledger(GrainGeometry(16384, 64, 1, 64));
    const unsigned bits = ledger.geometry().bits().round_bits();
    EXPECT_TRUE(ledger.take({0, 1 | 0xABu << bits, 0, 0}));
    EXPECT_TRUE(ledger.take({0, 2, 0, 0}));
    EXPECT_EQ(ledger.round(0), 2u);
    EXPECT_EQ(ledger.lost(), 0u);
}

TEST(GrainLedger, LessThanHalfOfTheRoundsAheadIsLater) {
    for (const std::uint32_t units : {64u, 1u}) {
        const GrainGeometry geometry(16384, units, 1, 1);
        const unsigned bits = geometry.bits().round_bits();
        const std::uint32_t half = 1u << (bits - 1);
        GrainLedger ledger(geometry);
        EXPECT_EQ(take_all(ledger, 0, 1), true);
        ledger.take({0, 1 + half, 0, 0});
        EXPECT_EQ(ledger.round(0), 1u) << "that is as late as it is early";
        ledger.take({0, half, 0, 0});
        EXPECT_EQ(ledger.round(0), half);
        EXPECT_EQ(ledger.lost(), half - 2);
        ledger.take({0, 1, 0, 0});
        EXPECT_EQ(ledger.round(0), half);
    }
}

TEST(GrainLedger, NothingComesBeforeTheFirstRound) {
    GrainLedger ledger(GrainGeometry(1, 1, 1, 1));
    EXPECT_FALSE(ledger.take({0, 0, 0, 0}));
    EXPECT_FALSE(ledger.take({0, ~0u, 0, 0}));
    EXPECT_EQ(ledger.round(0), 0u);
    EXPECT_EQ(ledger.lost(), 0u);
    EXPECT_TRUE(ledger.take({0, 1, 0, 0}));
}

TEST(GrainLedger, NamesThatThereAreNotAreDropped) {
    GrainLedger ledger(GrainGeometry(3, 5, 1, 1));
    for (const std::uint32_t bad : {3u, 4u, 64u, 16384u, 1u << 31, ~0u})
        EXPECT_FALSE(ledger.take({0, 1, bad, 0})) << bad;
    for (const std::uint32_t bad : {5u, 6u, 7u, 63u, 64u, 4096u, 1u << 31, ~0u})
        EXPECT_FALSE(ledger.take({0, 2, 0, bad})) << bad;
    for (std::uint32_t index = 0; index < 3; ++index)
        EXPECT_EQ(ledger.round(index), 0u) << "nothing has begun";
    EXPECT_TRUE(take_all(ledger, 0, 1));
    EXPECT_FALSE(ledger.take({0, 9, 0, 5}));
    EXPECT_EQ(ledger.round(0), 1u);
    EXPECT_EQ(ledger.lost(), 0u);
}

/// A sender whose rounds are known in full, with what is late, doubled, left out and out of range in between.
void play(const GrainGeometry& geometry, unsigned seed) {
    std::mt19937 random(seed);
    GrainLedger ledger(geometry);
    const unsigned bits = geometry.bits().round_bits();
    const std::uint64_t reach = std::min<std::uint64_t>((std::uint64_t{1} << bits) / 2 - 1, 100);
    const std::uint32_t grains = std::min(geometry.grains(), 3u);
    std::vector<GrainModel> model(
        grains, GrainModel(count_units(geometry.length(), geometry.slices(), geometry.unit_length())));
    std::vector<std::uint64_t> sent(grains, 1), next(grains);
    std::uint64_t whole = 0;
    for (int step = 0; step < 20'000; ++step) {
        const std::uint32_t index = random() % grains;
        std::uint64_t round = sent[index];
        switch (random() % 200) {
            case 0:
                round = sent[index] += 1 + random() % 3;
                break;
            case 1:
                round = sent[index] = model[index].round() + 1 + random() % reach;
                break;
            case 2:
            case 3:
                round -= std::min<std::uint64_t>(round, random() % reach);
                break;
            default:
                break;
        }
        if (round < model[index].round() && model[index].round() - round > reach) continue;
        const auto unit =
            static_cast<std::uint32_t>((random() % 8 ? next[index]++ : random()) % (geometry.units() + 1));
        const bool announced = ledger.take({0, static_cast<std::uint32_t>(round), index, unit});
        ASSERT_EQ(announced, model[index].take(round, unit)) << "seed " << seed << ", step " << step;
        ASSERT_EQ(ledger.round(index), model[index].round()) << "seed " << seed << ", step " << step;
        if (!announced) continue;
        ++whole;
        ++sent[index];
    }
    std::uint64_t lost = 0;
    for (const GrainModel& grain : model)
        lost += grain.lost();
    EXPECT_EQ(ledger.lost(), lost) << "seed " << seed;
    EXPECT_GT(whole, 5u);
    EXPECT_GT(lost, 5u);
}

TEST(GrainLedger, AgreesWithAModelThatCounts) {
    for (unsigned seed = 0; seed < 8; ++seed) {
        play(GrainGeometry(16384, 9, 3, 1), seed);
        play(GrainGeometry(1, 1, 1, 1), seed);
        play(GrainGeometry(16384, 64, 1, 1), seed);  // 8 bits for rounds
        play(GrainGeometry(7, 25, 3, 4), seed);
        play(GrainGeometry(2, 67, 1, 1), seed);
    }
}

}  // namespace
}  // namespace railyard::flow
