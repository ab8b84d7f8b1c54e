// Where the units of all sources arrive.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "flow/grain_board.h"
#include "model.h"

namespace railyard::flow {
namespace {

using Popped = std::vector<std::array<std::uint64_t, 3>>;  // source, index, round

Popped pop_all(GrainBoard& board) {
    Popped all;
    while (const auto grain = board.pop())
        all.push_back({grain->source, grain->index, grain->round});
    EXPECT_TRUE(board.empty());
    return all;
}

void expect_counters(const GrainBoard& board, std::uint32_t source, const GrainBoard::Counters& wanted) {
    const GrainBoard::Counters got = board.counters(source);
    EXPECT_EQ(got.grains, wanted.grains) << "of source " << source;
    EXPECT_EQ(got.lost, wanted.lost) << "of source " << source;
    EXPECT_EQ(got.overwritten, wanted.overwritten) << "of source " << source;
}

void send(GrainBoard& board, const GrainGeometry& geometry, const UnitName& name) {
    board.on_immediate(geometry.bits().pack(name));
}

void send_all(GrainBoard& board, const GrainGeometry& geometry, UnitName name) {
    for (name.unit = 0; name.unit < geometry.units(); ++name.unit)
        send(board, geometry, name);
}

TEST(GrainBoard, GivesGrainsInTheOrderInWhichTheyBecameWhole) {
    const GrainGeometry geometry(4, 8, 2, 2);
    GrainBoard board;
    board.open(3, geometry);
    board.open(0, geometry);
    EXPECT_TRUE(board.empty());
    EXPECT_FALSE(board.pop());
    send(board, geometry, {3, 1, 0, 0});  // begun first, and whole last
    send_all(board, geometry, {3, 1, 2, 0});
    send_all(board, geometry, {0, 1, 2, 0});
    send_all(board, geometry, {0, 1, 1, 0});
    EXPECT_FALSE(board.empty());
    send_all(board, geometry, {3, 1, 0, 0});
    EXPECT_EQ(pop_all(board), (Popped{{3, 2, 1}, {0, 2, 1}, {0, 1, 1}, {3, 0, 1}}));
    expect_counters(board, 3, {2, 0, 0});
    expect_counters(board, 0, {2, 0, 0});
    expect_counters(board, 1, {0, 0, 0});
}

TEST(GrainBoard, AGrainThatNobodyTookInTimeIsOverwritten) {
    const GrainGeometry geometry(2, 4, 1, 1);
    GrainBoard board;
    board.open(1, geometry);
    send_all(board, geometry, {1, 1, 0, 0});
    send_all(board, geometry, {1, 1, 1, 0});
    send_all(board, geometry, {1, 2, 0, 0});
    send_all(board, geometry, {1, 3, 0, 0});
    expect_counters(board, 1, {4, 0, 2});
    EXPECT_EQ(pop_all(board), (Popped{{1, 1, 1}, {1, 0, 3}})) << "it stands at the end again";
    send_all(board, geometry, {1, 4, 0, 0});
    expect_counters(board, 1, {5, 0, 2});
    EXPECT_EQ(pop_all(board), (Popped{{1, 0, 4}}));
}

TEST(GrainBoard, ARoundThatIsTornDoesNotTakeBackTheOneBefore) {
    const GrainGeometry geometry(1, 4, 1, 1);
    GrainBoard board;
    board.open(1, geometry);
    send_all(board, geometry, {1, 1, 0, 0});
    send(board, geometry, {1, 2, 0, 0});
    send(board, geometry, {1, 4, 0, 3});
    expect_counters(board, 1, {1, 2, 0});
    EXPECT_EQ(pop_all(board), (Popped{{1, 0, 1}}));
}

TEST(GrainBoard, OpeningAgainLeavesWhatWaits) {
    const GrainGeometry geometry(3, 4, 1, 1), other(2, 6, 1, 2);
    GrainBoard board;
    board.open(1, geometry);
    board.open(2, geometry);
    send_all(board, geometry, {1, 1, 0, 0});
    send_all(board, geometry, {2, 1, 0, 0});
    send_all(board, geometry, {1, 9, 2, 0});
    send(board, geometry, {1, 1, 1, 0});
    expect_counters(board, 1, {2, 8, 0});
    board.open(1, other);
    expect_counters(board, 1, {2, 8, 0});
    expect_counters(board, 2, {1, 0, 0});
    send(board, other, {1, 1, 1, 1});
    send(board, other, {1, 1, 1, 2});
    EXPECT_EQ(pop_all(board), (Popped{{1, 0, 1}, {2, 0, 1}, {1, 2, 9}}))
        << "all that was announced, and a unit of before counts no more";
    send(board, other, {1, 1, 1, 0});
    EXPECT_EQ(pop_all(board), (Popped{{1, 1, 1}})) << "its rounds begin anew";
    expect_counters(board, 1, {3, 8, 0});
    board.open(1, geometry);
    board.open(1, geometry);
    EXPECT_TRUE(board.empty());
    EXPECT_FALSE(board.pop());
}

TEST(GrainBoard, WhatWaitsAcrossAnOpeningCanBeOverwritten) {
    const GrainGeometry geometry(2, 4, 1, 1);
    GrainBoard board;
    board.open(1, geometry);
    send_all(board, geometry, {1, 5, 0, 0});
    send_all(board, geometry, {1, 5, 1, 0});
    board.open(1, geometry);
    send_all(board, geometry, {1, 1, 0, 0});
    expect_counters(board, 1, {3, 8, 1});
    EXPECT_EQ(pop_all(board), (Popped{{1, 1, 5}, {1, 0, 1}}));
}

TEST(GrainBoard, WhatWaitsKeepsItsPlaceBesideMoreGrains) {
    const GrainGeometry few(2, 4, 1, 1), many(100, 4, 1, 1);
    GrainBoard board;
    board.open(1, few);
    send_all(board, few, {1, 1, 1, 0});
    send_all(board, few, {1, 1, 0, 0});
    board.open(1, many);
    send_all(board, many, {1, 1, 99, 0});
    send_all(board, many, {1, 1, 1, 0});
    EXPECT_EQ(pop_all(board), (Popped{{1, 0, 1}, {1, 99, 1}, {1, 1, 1}}));
    expect_counters(board, 1, {4, 0, 1});
}

TEST(GrainBoard, AnotherSourceOfTheSameNumberIsCountedAnew) {
    const GrainGeometry geometry(2, 4, 1, 1);
    GrainBoard board;
    board.open(1, geometry);
    send_all(board, geometry, {1, 3, 0, 0});
    board.open(1, geometry, GrainBoard::Counting::anew);
    expect_counters(board, 1, {0, 0, 0});
    send_all(board, geometry, {1, 1, 1, 0});
    expect_counters(board, 1, {1, 0, 0});
    EXPECT_EQ(pop_all(board), (Popped{{1, 0, 3}, {1, 1, 1}}));
}

TEST(GrainBoard, SourcesThatWereNeverOpenedAreDropped) {
    const GrainGeometry geometry(1, 1, 1, 1);
    GrainBoard board;
    for (std::uint32_t source = 0; source < most_sources; ++source) {
        send_all(board, geometry, {source, 1, 0, 0});
        board.take(source, {source, 1, 0, 0}, 1);
        board.take(source, {source, 1, 0, 0}, ~0u);
        board.on_immediate(source << 28 | 0x0FFFFFFF);
        expect_counters(board, source, {0, 0, 0});
    }
    EXPECT_TRUE(board.empty());
    EXPECT_FALSE(board.pop());
    board.open(15, geometry);
    for (std::uint32_t source = 0; source < most_sources; ++source)
        send_all(board, geometry, {source, 1, 0, 0});
    EXPECT_EQ(pop_all(board), (Popped{{15, 0, 1}}));
}

TEST(GrainBoard, TakesRangesOfUnits) {
    const GrainGeometry geometry(2, 10, 2, 1);
    GrainBoard board;
    board.open(7, geometry);
    board.take(7, {7, 1, 1, 0}, 0);
    board.take(7, {7, 1, 1, 5}, 5);
    board.take(7, {7, 1, 1, 0}, 4);
    EXPECT_TRUE(board.empty());
    board.take(7, {7, 1, 1, 3}, 2);
    EXPECT_EQ(pop_all(board), (Popped{{7, 1, 1}}));
    send(board, geometry, {7, 2, 1, 0});
    board.take(7, {7, 2, 1, 1}, 9);
    EXPECT_EQ(pop_all(board), (Popped{{7, 1, 2}})) << "some by immediates, some by a message";
    expect_counters(board, 7, {2, 0, 0});
}

TEST(GrainBoard, TakesWhatThereIsOfHugeCounts) {
    const GrainGeometry geometry(1, 4096, 1, 1);
    GrainBoard board;
    board.open(0, geometry);
    std::uint32_t round = 0;
    for (const std::uint32_t count : {4096u, 4097u, 1u << 31, ~0u - 1, ~0u}) {
        board.take(0, {0, ++round, 0, 0}, count);
        EXPECT_EQ(pop_all(board), (Popped{{0, 0, round}})) << count;
        board.take(0, {0, ++round, 0, 4000}, count);
        EXPECT_TRUE(board.empty());
        board.take(0, {0, round, 0, 0}, 4000);
        EXPECT_EQ(pop_all(board), (Popped{{0, 0, round}})) << count;
    }
    expect_counters(board, 0, {10, 0, 0});
}

TEST(GrainBoard, RangesDoNotWrap) {
    const GrainGeometry geometry(1, 2, 1, 1);
    GrainBoard board;
    board.open(0, geometry);
    for (const std::uint32_t first : {2u, 4096u, 1u << 31, ~0u - 4096, ~0u - 4095, ~0u - 1, ~0u})
        for (const std::uint32_t count : {1u, 2u, 4u, 4096u, 5000u, 1u << 31, ~0u})
            board.take(0, {0, 1, 0, first}, count);
    EXPECT_TRUE(board.empty());
    for (const std::uint32_t index : {1u, 16384u, ~0u})
        board.take(0, {0, 1, index, 0}, 2);
    board.take(0, {0, 1, 0, 0}, 1);
    EXPECT_TRUE(board.empty()) << "no unit of it had come";
    board.take(0, {0, 1, 0, 1}, 1);
    EXPECT_EQ(pop_all(board), (Popped{{0, 0, 1}}));
    expect_counters(board, 0, {1, 0, 0});
}

TEST(GrainBoard, AgreesWithAModel) {
    for (unsigned seed = 0; seed < 20; ++seed) {
        std::mt19937 random(seed);
        const std::array<GrainGeometry, 3> shapes{GrainGeometry(3, 5, 1, 1), GrainGeometry(16384, 64, 32, 30),
                                                  GrainGeometry(2, 7, 2, 3)};
        GrainBoard board;
        BoardModel model;
        std::map<std::uint32_t, GrainGeometry> open;
        std::uint64_t popped = 0;
        for (int step = 0; step < 20'000; ++step) {
            const std::uint32_t source = random() % 4;
            const unsigned what = random() % 1000;
            if (what == 0) {
                open.insert_or_assign(source, shapes[random() % 3]);
                board.open(source, open.at(source));
                model.open(source, open.at(source));
            } else if (what < 100) {
                const auto got = board.pop(), wanted = model.pop();
                ASSERT_EQ(got.has_value(), wanted.has_value());
                if (!got) continue;
                ASSERT_EQ(got->index, wanted->index);
                ASSERT_EQ(got->source, wanted->source);
                ASSERT_EQ(got->round, wanted->round);
                ++popped;
            } else if (open.contains(source)) {
                const std::uint32_t index = random() % 3;
                const std::uint32_t ahead = what < 110 ? random() % 300 : what < 150 ? 1 : 0;
                const auto round = static_cast<std::uint32_t>(model.round(source, index) + ahead);
                UnitName name{source, round, index, static_cast<std::uint32_t>(random() % 40)};
                if (what < 900) {
                    send(board, open.at(source), name);
                    model.on_immediate(open.at(source).bits().pack(name));
                } else {
                    const std::uint32_t count = random() % 40;
                    board.take(source, name, count);
                    for (std::uint32_t i = 0; i < count; ++i, ++name.unit)
                        model.take(source, name);
                }
            }
            ASSERT_EQ(board.empty(), model.empty()) << "seed " << seed << ", step " << step;
        }
        for (std::uint32_t source = 0; source < most_sources; ++source)
            expect_counters(board, source, model.counters(source));
        EXPECT_GT(popped, 50u);
    }
}

/// Each thread its own source, as progress threads of rails have it, and one that takes meanwhile.
TEST(GrainBoard, SeveralThreadsLoseNothing) {
    constexpr std::uint32_t grains = 4, rounds = 10'000, threads = 2;
    const GrainGeometry geometry(grains, 12, 3, 2);
    GrainBoard board;
    for (std::uint32_t source = 0; source < threads; ++source)
        board.open(source, geometry);
    std::atomic<std::uint32_t> begun{0}, running{threads};
    std::vector<std::thread> workers;
    for (std::uint32_t source = 0; source < threads; ++source) {
        workers.emplace_back([&, source] {
            begun.fetch_add(1);
            while (begun.load() < threads)
                std::this_thread::yield();
            for (std::uint32_t round = 1; round <= rounds; ++round)
                for (std::uint32_t index = 0; index < grains; ++index)
                    send_all(board, geometry, {source, round, index, 0});
            running.fetch_sub(1);
        });
    }
    std::array<std::array<std::uint64_t, grains>, threads> latest{};
    std::array<std::uint64_t, threads> popped{};
    const auto note = [&](const GrainBoard::Arrived& grain) {
        EXPECT_GT(grain.round, latest[grain.source][grain.index]) << "rounds grow";
        latest[grain.source][grain.index] = grain.round;
        ++popped[grain.source];
    };
    while (running.load() != 0) {
        if (const auto grain = board.pop()) note(*grain);
    }
    for (std::thread& worker : workers)
        worker.join();
    while (const auto grain = board.pop())
        note(*grain);
    for (std::uint32_t source = 0; source < threads; ++source) {
        const GrainBoard::Counters counters = board.counters(source);
        EXPECT_EQ(counters.grains, std::uint64_t{rounds} * grains);
        EXPECT_EQ(counters.lost, 0u);
        EXPECT_EQ(counters.grains, popped[source] + counters.overwritten);
        for (const std::uint64_t round : latest[source])
            EXPECT_EQ(round, rounds) << "the latest one of each grain is to be had";
    }
}

/// Units of one grain by two threads: whoever brings the last one announces it, once.
TEST(GrainBoard, AGrainOfSeveralThreadsIsAnnouncedOnce) {
    constexpr std::uint32_t rounds = 200, units = 4096;
    const GrainGeometry geometry(1, units, 1, 1);
    GrainBoard board;
    board.open(9, geometry);
    std::atomic<std::uint32_t> arrived{0};
    const auto bring = [&](std::uint32_t parity) {
        for (std::uint32_t round = 1; round <= rounds; ++round) {
            for (std::uint32_t unit = parity; unit < units; unit += 2)
                send(board, geometry, {9, round, 0, unit});
            arrived.fetch_add(1);
            while (arrived.load() < 2 * round)
                std::this_thread::yield();  // so that both begin the next one together
        }
    };
    std::thread other(bring, 1);
    bring(0);
    other.join();
    expect_counters(board, 9, {rounds, 0, rounds - 1});
    EXPECT_EQ(pop_all(board), (Popped{{9, 0, rounds}}));
}

}  // namespace
}  // namespace railyard::flow
