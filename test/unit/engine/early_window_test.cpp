// The writer's side of notifications that leave together with their data.
#include "engine/early_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

namespace railyard {
namespace early_window_test {

constexpr std::uint8_t wide = EarlyMark::favoured_window;

TEST(EarlyWindow, AsksUntilItIsAnsweredAndEightTimesAtMost) {
    EarlyWindow silent;
    EXPECT_FALSE(silent.begin());
    int asked = 0;
    for (int i = 0; i < 10'000; ++i)
        asked += silent.wants_number() && silent.asks() ? 1 : 0;
    EXPECT_EQ(asked, 8);
    silent.answer(0, 7, wide, 0);
    EXPECT_TRUE(silent.begin()) << "late, and right";
    EarlyWindow window;
    EXPECT_TRUE(window.wants_number());
    EXPECT_TRUE(window.asks());
    window.answer(0, 7, wide, 0);
    EXPECT_FALSE(window.wants_number());
    EXPECT_EQ(window.begin(), EarlyMark::of(7, 0));
    window.answer(0, 8, wide, 0);  // a second answer changes nothing
    EXPECT_EQ(window.begin(), EarlyMark::of(7, 1));
}

TEST(EarlyWindow, WithoutANumberNothingIsEarly) {
    EarlyWindow window;
    window.answer(0, 0, 0, 5);
    EXPECT_FALSE(window.begin());
    EXPECT_FALSE(window.wants_number());
}

/// It may have been given out to others, which have gone since.
TEST(EarlyWindow, ATargetWithoutANumberIsAskedAgainLater) {
    constexpr std::uint64_t pause = EarlyWindow::refused_pause_ns, begun = 7 * pause;
    EarlyWindow window;
    EXPECT_TRUE(window.asks());
    for (std::uint64_t time = begun; time < begun + 3 * pause; time += pause) {
        window.answer(0, 0, 0, 5);
        EXPECT_FALSE(window.begin());
        EXPECT_FALSE(window.ends_dearth(1, time));
        EXPECT_FALSE(window.ends_dearth(1, time + pause - 1));
        EXPECT_FALSE(window.wants_number()) << "it has just said so";
        EXPECT_FALSE(window.ends_dearth(1, time + pause)) << "it knows us";
        EXPECT_TRUE(window.wants_number());
        EXPECT_TRUE(window.asks());
    }
    window.answer(0, 3, wide, 0);
    EXPECT_TRUE(window.begin());
    EXPECT_FALSE(window.wants_number());
}

/// How many it lets begin; they end at once.
int left_of(EarlyWindow& window) {
    int count = 0;
    for (; window.begin(); ++count)
        window.end();
    return count;
}

TEST(EarlyWindow, IsAheadOfWhatTheTargetHasLookedAtByItsWindow) {
    for (const std::uint8_t most : {wide, EarlyMark::narrow_window}) {
        EarlyWindow window;
        window.answer(0, 9, most, 0);
        EXPECT_EQ(left_of(window), most);
        window.credit(3, 9);
        window.credit(3, 8);  // of another number
        EXPECT_EQ(left_of(window), 3);
        window.credit(UINT32_MAX, 9);
        EXPECT_EQ(left_of(window), wide) << "however much it is told";
        EXPECT_FALSE(window.begin());
        window.credit(1, 9);
        ASSERT_TRUE(window.begin());
        window.take_back(1);
        EXPECT_EQ(left_of(window), 1) << "one was not sent";
    }
}

TEST(EarlyWindow, TakesAnotherNumberOnceADoubtedOneIsUsedNoMore) {
    EarlyWindow window;
    window.answer(0, 1, wide, 5);
    EXPECT_EQ(window.begin(), EarlyMark::of(1, 5));
    EXPECT_EQ(window.begin(), EarlyMark::of(1, 6));
    EXPECT_EQ(window.replace(), EarlyMark::of(1, 7));
    EXPECT_EQ(window.replace(), EarlyMark::of(1, 8));
    EXPECT_FALSE(window.begin()) << "in doubt";
    window.end();
    EXPECT_FALSE(window.wants_number()) << "one is under way";
    window.end();
    EXPECT_TRUE(window.wants_number());
    EXPECT_EQ(window.old_number(), 1u);
    EXPECT_FALSE(window.begin());
    EXPECT_TRUE(window.asks());
    window.answer(0, 1, wide, 0);
    EXPECT_FALSE(window.begin()) << "the answer to a question of before";
    window.answer(1, 2, wide, 0);
    EXPECT_EQ(window.begin(), EarlyMark::of(2, 0));
    EXPECT_EQ(left_of(window), wide - 1);
}

/// What it tells of the marks is lost with its memory of us, say.
TEST(EarlyWindow, TakesAnotherNumberWhereTheTargetTellsOfNoMarksForLong) {
    constexpr std::uint64_t second = EarlyWindow::longest_dearth_ns, begun = 5 * second;
    EarlyWindow window;
    window.answer(0, 1, wide, 0);
    EXPECT_FALSE(window.ends_dearth(1, begun)) << "there are some";
    EXPECT_TRUE(window.begin());
    left_of(window);
    EXPECT_FALSE(window.ends_dearth(1, begun + second));
    EXPECT_FALSE(window.ends_dearth(1, begun + 2 * second - 1));
    window.credit(1, 1);
    EXPECT_EQ(left_of(window), 1);
    EXPECT_FALSE(window.ends_dearth(1, begun + 3 * second)) << "it has told of one";
    EXPECT_FALSE(window.ends_dearth(1, begun + 2 * second)) << "another thread's clock was read before";
    EXPECT_FALSE(window.wants_number());
    EXPECT_TRUE(window.ends_dearth(1, begun + 4 * second));
    EXPECT_FALSE(window.ends_dearth(1, begun + 9 * second)) << "no number is used any more";
    EXPECT_FALSE(window.wants_number()) << "one is under way";
    window.end();
    EXPECT_TRUE(window.wants_number());
    EXPECT_EQ(window.old_number(), 1u);
    EXPECT_TRUE(window.asks());
    window.answer(1, 2, wide, 0);
    EXPECT_EQ(left_of(window), wide);
    EXPECT_FALSE(window.ends_dearth(1, begun + 10 * second));
    EXPECT_TRUE(window.ends_dearth(1, begun + 11 * second));
    EXPECT_TRUE(window.wants_number()) << "none is under way";
}

TEST(EarlyWindow, LacksNoMarksWhereItHasNoNumberOrMayNotBegin) {
    constexpr std::uint64_t second = EarlyWindow::longest_dearth_ns;
    EarlyWindow without, single;
    without.answer(0, 0, 0, 0);
    single.answer(0, 1, EarlyMark::narrow_window, 0);
    for (std::uint64_t i = 1; i < 10; ++i) {
        EXPECT_FALSE(without.ends_dearth(1, i * second));
        EXPECT_FALSE(single.ends_dearth(64, i * second)) << "it is told of one operation each";
    }
}

TEST(EarlyWindow, OfSeveralOperationsEachTakesAMark) {
    EarlyWindow window;
    window.answer(0, 5, wide, 0);
    EXPECT_EQ(window.begin(60), EarlyMark::of(5, 0));
    EXPECT_EQ(window.begin(64), EarlyMark::of(5, 60));
    EXPECT_FALSE(window.begin(5)) << "four are left";
    EXPECT_EQ(window.begin(4), EarlyMark::of(5, 124));
    window.take_back(4);
    EXPECT_EQ(left_of(window), 4);
    window.end();
    window.doubt();
    window.end();
    EXPECT_TRUE(window.wants_number()) << "three were begun, and one of them was taken back";
}

TEST(EarlyWindow, MarksOfOneTransferFollowEachOtherAlsoWhereTheyStartAnew) {
    EarlyWindow window;
    window.answer(0, 5, wide, EarlyMark::sequences - 10);
    EXPECT_EQ(window.begin(10), EarlyMark::of(5, EarlyMark::sequences - 10));
    EXPECT_EQ(window.begin(1), EarlyMark::of(5, 0));
    EarlyWindow short_of_room;
    short_of_room.answer(0, 5, wide, EarlyMark::sequences - 10);
    EXPECT_EQ(short_of_room.begin(11), EarlyMark::of(5, 0));
    EXPECT_EQ(short_of_room.begin(1), EarlyMark::of(5, 11));
}

/// It has no message for them.
TEST(EarlyWindow, ATargetThatKnowsOfOneOperationAloneIsSentNoSeveral) {
    for (const std::uint8_t most : {EarlyMark::widest_of_single, EarlyMark::narrow_window}) {
        EarlyWindow window;
        window.answer(0, 5, most, 0);
        EXPECT_FALSE(window.begin(2));
        EXPECT_TRUE(window.begin(1));
        window.credit(UINT32_MAX, 5);
        EXPECT_FALSE(window.begin(2)) << "also where it has told of more";
    }
}

TEST(EarlyWindow, SeveralThreadsBeginEachMarkOnce) {
    EarlyWindow window;
    window.answer(0, 3, wide, 0);
    std::vector<std::vector<std::uint32_t>> begun(3);
    std::vector<std::thread> threads;
    for (std::vector<std::uint32_t>& mine : begun) {
        threads.emplace_back([&window, &mine] {
            while (mine.size() < 1000) {
                const std::optional<std::uint32_t> mark = window.begin();
                if (!mark) continue;
                mine.push_back(*mark);
                window.credit(1, 3);
                window.end();
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    std::vector<std::uint32_t> all;
    for (const std::vector<std::uint32_t>& mine : begun)
        all.insert(all.end(), mine.begin(), mine.end());
    std::sort(all.begin(), all.end());
    for (std::uint32_t i = 0; i < 3000; ++i)
        ASSERT_EQ(all[i], EarlyMark::of(3, i));
    EXPECT_EQ(left_of(window), wide);
}

TEST(EarlyMark, SaysWhoseItIsHoweverManyThereHaveBeen) {
    for (const std::uint32_t writer : {1u, EarlyMark::most_writers}) {
        for (const std::uint32_t sequence : {0u, 1u, (1u << 22) - 1, 1u << 22, UINT32_MAX})
            EXPECT_EQ(EarlyMark::writer_of(EarlyMark::of(writer, sequence)), writer) << sequence;
    }
    EXPECT_EQ(EarlyMark::of(3, 1u << 22), EarlyMark::of(3, 0));
}

}  // namespace early_window_test
}  // namespace railyard
