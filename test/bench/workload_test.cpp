#include "workload.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <stdexcept>

namespace railyard::bench {
namespace {

TEST(Layouts, FitWhereTheirBytesDoAndNotWhereTheseWrap) {
    constexpr std::uint64_t room = 1 << 20;
    for (const Layout& layout : {Layout{8, 3, 2}, Layout{64, 1, 1}, Layout{10'000, 4, 4}}) {
        EXPECT_TRUE(layout.fits(layout.bytes()));
        EXPECT_FALSE(layout.fits(layout.bytes() - 1));
    }
    EXPECT_FALSE((Layout{UINT64_MAX, 1, 1}.fits(room)));
    EXPECT_FALSE((Layout{UINT64_MAX - 4096, 1, 1}.fits(room)));
    EXPECT_FALSE((Layout{room - 64, UINT32_MAX, UINT32_MAX}.fits(room)));
    EXPECT_FALSE((Layout{8, UINT32_MAX, UINT32_MAX}.fits(room)));
    EXPECT_FALSE((Layout{8, 1, 1}.fits(63)));
}

class WorkloadTest : public testing::TestWithParam<Layout> {
  protected:
    std::vector<std::byte> memory_ = std::vector<std::byte>(GetParam().bytes());
};

TEST_P(WorkloadTest, FilledIsRightAndScrubbedIsWrong) {
    const Layout layout = GetParam();
    fill_source(memory_, layout, 42);
    EXPECT_EQ(check_destination(memory_, layout, 42), std::nullopt);
    EXPECT_TRUE(check_destination(memory_, layout, 43));
    scrub_destination(memory_, layout, 42);
    EXPECT_TRUE(check_destination(memory_, layout, 42));
}

TEST_P(WorkloadTest, CopiedBlocksOverAScrubbedDestinationAreRight) {
    const Layout layout = GetParam();
    std::vector<std::byte> destination(layout.bytes());
    fill_source(memory_, layout, 7);
    scrub_destination(destination, layout, 7);
    for (unsigned slot = 0; slot < layout.window; ++slot) {
        for (unsigned block = 0; block < layout.batch; ++block) {
            std::uint64_t at = layout.offset(slot, block);
            std::memcpy(destination.data() + at, memory_.data() + at, layout.size);
        }
    }
    EXPECT_EQ(check_destination(destination, layout, 7), std::nullopt);
}

TEST_P(WorkloadTest, EveryByteOfBlocksAndGuardsCounts) {
    const Layout layout = GetParam();
    fill_source(memory_, layout, 42);
    std::uint64_t at = layout.offset(layout.window - 1, layout.batch - 1);
    for (std::uint64_t i : {at - Layout::guard, at - 1, at, at + layout.size / 2, at + layout.size - 1,
                            at + layout.size, at + layout.size + Layout::guard - 1}) {
        memory_[i] ^= std::byte{0x10};
        EXPECT_TRUE(check_destination(memory_, layout, 42)) << i - at;
        EXPECT_TRUE(check_slot(memory_, layout, 42, layout.window - 1)) << i - at;
        memory_[i] ^= std::byte{0x10};
    }
    EXPECT_EQ(check_destination(memory_, layout, 42), std::nullopt);
}

TEST_P(WorkloadTest, ScrubDiffersInEveryByte) {
    const Layout layout = GetParam();
    std::vector<std::byte> scrubbed(layout.bytes());
    fill_source(memory_, layout, 9);
    scrub_destination(scrubbed, layout, 9);
    std::uint64_t at = layout.offset(0, layout.batch - 1);
    for (std::uint64_t i = at; i < at + layout.size; ++i)
        ASSERT_NE(memory_[i], scrubbed[i]) << i - at;
}

TEST_P(WorkloadTest, CorruptIsSeen) {
    const Layout layout = GetParam();
    for (Corrupt kind : {Corrupt::data, Corrupt::guard}) {
        fill_source(memory_, layout, 5);
        corrupt(kind, memory_, layout);
        auto wrong = check_destination(memory_, layout, 5);
        ASSERT_TRUE(wrong);
        EXPECT_NE(wrong->find(kind == Corrupt::data ? "wrong data" : "behind the block"), std::string::npos)
            << *wrong;
    }
}

INSTANTIATE_TEST_SUITE_P(Layouts, WorkloadTest,
                         testing::Values(Layout{1, 1, 1}, Layout{8, 64, 3}, Layout{13, 3, 2},
                                         Layout{64, 2, 2}, Layout{65, 2, 2}, Layout{4095, 2, 2},
                                         Layout{4096, 4, 2}, Layout{10000, 2, 3}));

TEST(Workload, LayoutsOverlapNowhere) {
    for (std::uint64_t size : {1, 8, 63, 64, 100, 4096, 4097}) {
        Layout layout{size, 3, 2};
        std::uint64_t free_from = 0;
        for (unsigned slot = 0; slot < 2; ++slot) {
            for (unsigned block = 0; block < 3; ++block) {
                std::uint64_t at = layout.offset(slot, block);
                EXPECT_GE(at - Layout::guard, free_from);
                EXPECT_EQ(at % (size >= 4096 ? 4096 : 64), 0u);
                free_from = at + size + Layout::guard;
            }
        }
        EXPECT_LE(free_from, layout.bytes());
    }
}

TEST(Workload, BlocksDifferFromEachOther) {
    Layout layout{8, 16, 4};
    std::vector<std::byte> memory(layout.bytes());
    fill_source(memory, layout, 1);
    std::set<std::uint64_t> words;
    for (unsigned slot = 0; slot < 4; ++slot) {
        for (unsigned block = 0; block < 16; ++block) {
            std::uint64_t word = 0;
            std::memcpy(&word, memory.data() + layout.offset(slot, block), 8);
            words.insert(word);
        }
    }
    EXPECT_EQ(words.size(), 64u);
}

TEST(Workload, PointsAreEveryCombination) {
    Options options;
    options.ops = {host::Op::write, host::Op::read};
    options.notify = {false, true};
    options.batches = {1, 4};
    options.sizes = {8, 4096, 1u << 20};
    std::vector<Point> points = make_points(options);
    ASSERT_EQ(points.size(), 24u);
    EXPECT_EQ(points.front().op, host::Op::write);
    EXPECT_EQ(points.back().op, host::Op::read);
    for (unsigned i = 0; i < points.size(); ++i)
        EXPECT_EQ(points[i].index, i);
    EXPECT_EQ(describe(points.back()), "read of 1M, batch 4, window 16, notify on");
}

TEST(Workload, WindowShrinksToTheMemory) {
    Options options;
    options.ops = {host::Op::write};
    options.notify = {false};
    options.batches = {1};
    options.sizes = {1u << 20};
    options.memory = 5u << 20;
    std::vector<Point> points = make_points(options);
    EXPECT_EQ(points[0].layout.window, 4u);
    EXPECT_LE(memory_needed(points), options.memory);
    options.memory = 1u << 20;
    EXPECT_THROW(static_cast<void>(make_points(options)), std::invalid_argument);
}

}  // namespace
}  // namespace railyard::bench
