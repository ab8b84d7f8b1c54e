#include "rail/staging_rail.h"

#include <cuda.h>

#include <random>

#include "staging_fixture.h"

namespace railyard::test {
namespace {

using StagingRailData = OnStagingRail;
using Lengths = std::vector<std::uint32_t>;

TEST_F(StagingRailData, BothDirectionsInAllSizes) {
    open(4, 4096);
    rails[0]->delay = 2;
    for (const Work::Kind kind : both_kinds) {
        for (const std::uint32_t length : {1U, 63U, 64U, 65U, 4095U, 4096U, 4097U, 16384U, 100'001U}) {
            const auto moved = transfer(kind, {{length}}, length);
            moved->post(*staging);
            EXPECT_EQ(end(*moved), Status::ok) << length;
            EXPECT_TRUE(moved->arrived()) << length;
        }
    }
    progress();
    EXPECT_FALSE(staging->has_work());
}

TEST_F(StagingRailData, SmallChunksShareSlots) {
    open(4, 65536);
    for (const Work::Kind kind : both_kinds) {
        const auto moved = transfer(kind, {Lengths(5000, 100), 4096, 28});
        const std::uint64_t submissions = rails[0]->submissions, posted = rails[0]->posted;
        moved->post(*staging);
        EXPECT_EQ(end(*moved), Status::ok);
        EXPECT_TRUE(moved->arrived());
        EXPECT_EQ(rails[0]->posted - posted, 5000U);
        // 256 of 128 bytes a slot, so 20 slots.
        EXPECT_EQ(rails[0]->submissions - submissions, 20U);
    }
}

TEST_F(StagingRailData, ASlotTakesWhatFits) {
    open(2, 1024);
    const auto moved = transfer(Work::Kind::write, {{700, 300, 500, 524, 1024, 1}, 1024, 8});
    moved->post(*staging);
    EXPECT_EQ(end(*moved), Status::ok);
    EXPECT_TRUE(moved->arrived());
    // 700 and (from 704) 300; 500 and (from 512) not 524; 524; 1024; 1.
    EXPECT_EQ(rails[0]->submissions, 5U);
}

TEST_F(StagingRailData, AdjoiningChunksAreOneCopy) {
    open(1, 65536);
    for (const Work::Kind kind : both_kinds) {
        const auto moved = transfer(kind, {{60'000}, 777});
        fake().fail("cuMemcpyAsync", 2, CUDA_ERROR_INVALID_VALUE);
        moved->post(*staging);
        EXPECT_EQ(end(*moved), Status::ok);
        EXPECT_TRUE(moved->arrived());
        fake().fail_nothing();
    }
}

/// A page of a cache here, wherever it lies, and its place in a row of pages there: what the peer's rail
/// moves is a slot, not a page. Descriptors by turns have another remote memory, which is another operation.
TEST_F(StagingRailData, WhatAdjoinsInTheSlotAndAtThePeerIsOneOperation) {
    open(2, 8192);
    for (const Work::Kind kind : both_kinds) {
        const auto moved = transfer(kind, {{8192, 4096, 4096}, 512, 64});
        const std::uint64_t posted = rails[0]->posted;
        moved->post(*staging);
        EXPECT_EQ(end(*moved), Status::ok);
        EXPECT_TRUE(moved->arrived());
        EXPECT_EQ(rails[0]->posted - posted, 3U);
    }
}

TEST_F(StagingRailData, MixedSizesOverManyRoundsAndSlots) {
    open(5, 8192, 2);
    std::mt19937 random(7);
    for (int round = 0; round < 20; ++round) {
        Lengths lengths;
        for (int i = 0; i < 60; ++i)
            lengths.push_back(1 + static_cast<std::uint32_t>(random() % (i % 7 ? 300 : 20'000)));
        rails[0]->delay = static_cast<unsigned>(random() % 4);
        rails[1]->refusals = static_cast<unsigned>(random() % 5);
        const auto out = transfer(Work::Kind::write, {lengths, 8192, random() % 3}, round);
        const auto in = transfer(Work::Kind::read, {lengths, 5000, random() % 3}, 100 + round);
        out->post(*staging);
        in->post(*staging);
        EXPECT_EQ(end(*out), Status::ok);
        EXPECT_EQ(end(*in), Status::ok);
        EXPECT_TRUE(out->arrived());
        EXPECT_TRUE(in->arrived());
    }
}

TEST_F(StagingRailData, RepostsMoveNewBytes) {
    open(3, 4096);
    for (const Work::Kind kind : both_kinds) {
        const auto moved = transfer(kind, {{10'000, 5}, 4096, 3});
        for (unsigned round = 0; round < 10; ++round) {
            moved->fill(round);
            moved->post(*staging);
            EXPECT_EQ(end(*moved), Status::ok);
            EXPECT_TRUE(moved->arrived());
        }
    }
}

TEST_F(StagingRailData, MoreSubmissionsThanSlots) {
    open(2, 4096);
    rails[0]->delay = 3;
    std::vector<std::unique_ptr<StagedTransfer>> all;
    for (unsigned i = 0; i < 20; ++i)
        all.push_back(transfer(i % 2 ? Work::Kind::read : Work::Kind::write, {{9000 + i}}, i));
    for (const auto& each : all)
        each->post(*staging);
    for (const auto& each : all) {
        EXPECT_EQ(end(*each), Status::ok);
        EXPECT_TRUE(each->arrived());
    }
}

TEST_F(StagingRailData, ASlotLongChunkFitsAndALongerOneIsRefused) {
    open(1, 4096);
    EXPECT_EQ(staging->max_chunk(), 4096U);
    const auto fits = transfer(Work::Kind::write, {{4096}});
    fits->post(*staging);
    EXPECT_EQ(end(*fits), Status::ok);
    const auto longer = transfer(Work::Kind::write, {{4097}, 5000});
    longer->post(*staging);
    EXPECT_EQ(end(*longer), Status::invalid_param);
}

/// Few copies, as each costs a pause, but enough of them for copies and carriers to overlap.
TEST_F(StagingRailData, LongTransfersFillLongSlots) {
    constexpr std::uint32_t chunk = 512 << 10;
    open(16, 4 * chunk);
    EXPECT_EQ(staging->max_chunk(), chunk);
    for (const Work::Kind kind : both_kinds) {
        rails[0]->posted = rails[0]->submissions = 0;
        const auto shorter = transfer(kind, {{2 * chunk}, chunk});
        shorter->post(*staging);
        EXPECT_EQ(end(*shorter), Status::ok);
        EXPECT_TRUE(shorter->arrived());
        EXPECT_EQ(rails[0]->submissions, 2U) << "slots";

        rails[0]->posted = rails[0]->submissions = 0;
        const auto longer = transfer(kind, {{32 * chunk}, chunk});
        longer->post(*staging);
        EXPECT_EQ(end(*longer), Status::ok);
        EXPECT_TRUE(longer->arrived());
        EXPECT_GE(rails[0]->submissions, 8U) << "slots";
        EXPECT_LE(rails[0]->submissions, 20U) << "slots";
        EXPECT_EQ(rails[0]->posted, rails[0]->submissions) << "one operation each";
    }
}

TEST_F(StagingRailData, NoOperationIsLongerThanItsCarrierTakes) {
    constexpr std::uint32_t chunk = 512 << 10;
    open(4, 4 * chunk);
    rails[0]->longest = 2 * chunk - 1;
    const auto moved = transfer(Work::Kind::write, {{64 * chunk}, chunk});
    moved->post(*staging);
    EXPECT_EQ(end(*moved), Status::ok);
    EXPECT_TRUE(moved->arrived());
    EXPECT_EQ(rails[0]->posted, 64U);
}

/// Two that want many slots each get them in turns, whoever came first.
TEST_F(StagingRailData, SubmissionsTakeTurnsBySlot) {
    open(4, 4096);
    rails[0]->order.reserve(1000);
    const auto first = transfer(Work::Kind::write, {{60 * 4096}});
    const auto second = transfer(Work::Kind::write, {{30 * 4096}});
    second->route.carriers[0].keys[0].address_base += 1 << 30;  // to tell them apart
    for (Chunk& chunk : second->work.chunks)
        chunk.remote += 1 << 30;
    first->post(*staging);
    second->post(*staging);
    EXPECT_EQ(end(*first), Status::ok);
    EXPECT_EQ(end(*second), Status::ok);
    std::size_t slots_of_first = 0, slots_of_second = 0;
    for (const std::uint64_t remote : rails[0]->order) {
        ++(remote < (1 << 30) ? slots_of_first : slots_of_second);
        if (slots_of_second == 30) break;
    }
    EXPECT_EQ(slots_of_second, 30U);
    EXPECT_LE(slots_of_first, 35U);
}

/// One whose peer takes nothing does not stop the others, and has the slots that it may have.
TEST_F(StagingRailData, AClosedGateHoldsOneSlot) {
    open(2, 4096);
    Path gate;
    for (const Work::Kind kind : both_kinds) {
        gate.admit(0);
        const auto blocked = transfer(kind, {{40'000}}), free = transfer(kind, {{40'000}});
        blocked->route.carriers[0].path = &gate;
        blocked->route.carriers[0].gated = true;
        blocked->post(*staging);
        free->post(*staging);
        EXPECT_EQ(end(*free), Status::ok);
        EXPECT_TRUE(free->arrived());
        EXPECT_FALSE(blocked->work.done());
        gate.admit(1);
        EXPECT_EQ(end(*blocked), Status::ok);
        EXPECT_TRUE(blocked->arrived());
    }
}

TEST_F(StagingRailData, ManySlotsLeaveOneToOthers) {
    open(16, 4096);
    rails[0]->hold = true;
    const auto large = transfer(Work::Kind::write, {{40 * 4096}});
    const auto late = transfer(Work::Kind::write, {{4096}});
    large->post(*staging);
    EXPECT_TRUE(drive([&] { return rails[0]->posted == 14; }, [&] { progress(); }));
    for (int i = 0; i < 100; ++i)
        progress();
    EXPECT_EQ(rails[0]->posted, 14U);
    late->post(*staging);
    EXPECT_TRUE(drive([&] { return rails[0]->posted == 15; }, [&] { progress(); }));
    rails[0]->hold = false;
    EXPECT_EQ(end(*large), Status::ok);
    EXPECT_EQ(end(*late), Status::ok);
}

/// The driver refuses a copy that goes from one allocation into the next.
TEST_F(StagingRailData, RegionsThatAdjoinAreCopiedEachByItself) {
    constexpr std::uint32_t half = 4096;
    open(2, 4 * half);
    const AdjoiningBuffers there(held(), half);
    for (const Work::Kind kind : both_kinds) {
        const auto moved = transfer(kind, {{half, half}});
        moved->work.chunks[0].local = there.first->address();
        moved->work.chunks[1].local = there.second->address();
        moved->work.chunks[1].local_region = 1;
        const bool read = kind == Work::Kind::read;
        const std::vector<std::byte> sent = pattern(2 * half, read ? 7 : 8);
        if (read) {
            std::memcpy(moved->peer(), sent.data(), sent.size());
        } else {
            EXPECT_EQ(fake().gpu_write(there.first->address(), sent.data(), half), 0U);
            EXPECT_EQ(fake().gpu_write(there.second->address(), sent.data() + half, half), 0U);
        }
        moved->post(*staging);
        ASSERT_EQ(end(*moved), Status::ok);
        std::vector<std::byte> arrived(moved->peer(), moved->peer() + sent.size());
        if (read) {
            arrived = content(there.first->address(), half);
            const std::vector<std::byte> rest = content(there.second->address(), half);
            arrived.insert(arrived.end(), rest.begin(), rest.end());
        }
        EXPECT_EQ(arrived, sent);
    }
}

TEST_F(StagingRailData, TheLeastLoadedCarrierThatMayPostGetsTheSlot) {
    open(8, 4096, 3);
    Path closed;
    for (const auto& rail : rails)
        rail->hold = true;
    const auto loads = transfer(Work::Kind::read, {{2 * 4096}}),
               moved = transfer(Work::Kind::read, {{4 * 4096}});
    loads->route.carriers.resize(1);
    moved->route.carriers[2].path = &closed;
    moved->route.carriers[2].gated = true;
    loads->post(*staging);
    EXPECT_EQ(rails[0]->posted, 2U);
    moved->post(*staging);
    EXPECT_EQ(rails[0]->posted, 3U);
    EXPECT_EQ(rails[1]->posted, 3U);
    EXPECT_EQ(rails[2]->posted, 0U);
    for (const auto& rail : rails)
        rail->hold = false;
    EXPECT_EQ(end(*loads), Status::ok);
    EXPECT_EQ(end(*moved), Status::ok);
    EXPECT_TRUE(moved->arrived());
}

}  // namespace
}  // namespace railyard::test
