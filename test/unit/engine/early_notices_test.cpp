#include "engine/early_notices.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/early_window.h"

namespace railyard {
namespace {

constexpr std::uint8_t wide = EarlyMark::favoured_window;

bool keeps(EarlyNotices& notices, std::uint32_t mark, EarlyNotices::Notice notice) {
    return notices.take({mark}, notice) == EarlyNotices::Taken::kept;
}

bool is_placed(EarlyNotices& notices, std::uint32_t mark, const char* agent = "writer") {
    EarlyNotices::Notice notice{agent, "one"};
    return notices.take({mark}, notice) == EarlyNotices::Taken::in_place;
}

/// The instance has closed it, and it has rested.
std::vector<EarlyNotices::Notice> end(EarlyNotices& notices, std::uint64_t instance, std::uint32_t number) {
    notices.close(instance, number, 0);
    return notices.free_closed(2 * EarlyNotices::longest_rest_ns);
}

/// So many more of the writer with the number 1.
void match_some(EarlyNotices& notices, std::uint32_t& sequence, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
        ASSERT_TRUE(keeps(notices, EarlyMark::of(1, ++sequence), {"seven", "one"}));
        ASSERT_TRUE(notices.placed(EarlyMark::of(1, sequence)));
    }
}

TEST(EarlyNotices, AnInstanceKeepsItsNumberAndAllAreGivenOutOnce) {
    EarlyNotices notices;
    EXPECT_EQ(notices.number(0).number, 0u);
    for (std::uint32_t i = 1; i <= EarlyMark::most_writers; ++i)
        ASSERT_EQ(notices.number(100 + i).number, i);
    EXPECT_EQ(notices.number(99).number, 0u) << "there is no other";
    EXPECT_EQ(notices.number(105).number, 5u);
    EXPECT_TRUE(end(notices, 105, 5).empty());
    EXPECT_EQ(notices.number(99).number, 5u);
    EXPECT_EQ(notices.instance_of(EarlyMark::of(5, 3)), 99u);
}

TEST(EarlyNotices, TheFirstWritersHaveWiderWindows) {
    EarlyNotices notices;
    for (std::uint32_t i = 1; i <= EarlyMark::most_writers; ++i) {
        const std::uint8_t window = notices.number(i).window;
        ASSERT_EQ(window, i <= EarlyMark::favoured_writers ? wide : EarlyMark::narrow_window) << i;
    }
    end(notices, 1, 1);
    EXPECT_EQ(notices.number(5000).window, wide);
    EXPECT_EQ(notices.number(5000).window, wide) << "it keeps that";
}

/// Those of writers that nobody knows any more are no others', as long as all of them together are as many
/// marks as are kept.
TEST(EarlyNotices, ThoseThatAreLostKeepNobodyFromAWideWindow) {
    EarlyNotices notices;
    std::vector<std::uint64_t> lost;
    for (std::uint32_t i = 1; i <= EarlyMark::favoured_writers; ++i) {
        EXPECT_FALSE(notices.is_short());
        ASSERT_EQ(notices.number(i).window, wide);
        lost.push_back(i);
    }
    EXPECT_TRUE(notices.is_short());
    EXPECT_EQ(notices.instances(), lost);
    notices.close_lost(lost, 1);
    EXPECT_FALSE(notices.is_short());
    EXPECT_TRUE(notices.instances().empty());
    const auto number = notices.number(1'000);
    EXPECT_EQ(number.window, wide);
    EXPECT_EQ(number.number, EarlyMark::favoured_writers + 1) << "none that is another's";
    std::uint32_t most = EarlyMark::favoured_writers * wide + wide;
    for (std::uint64_t instance = 1'001; instance < 1'100; ++instance)
        most += notices.number(instance).window;
    EXPECT_LE(most, EarlyMark::most_unread);
    EXPECT_GT(most + EarlyMark::narrow_window, EarlyMark::most_unread - wide);
}

/// It does not know, and is told that all is well.
TEST(EarlyNotices, OneThatIsLostAndGoesOnHasItsNumberBack) {
    constexpr std::uint64_t second = 1'000'000'000;
    EarlyNotices notices;
    const std::uint64_t lost[] = {7};
    for (std::uint32_t i = 1; i <= EarlyMark::most_writers; ++i)
        ASSERT_EQ(notices.number(6 + i).number, i);
    notices.close_lost(lost, second);
    EXPECT_TRUE(notices.free_closed(EarlyNotices::longest_rest_ns - second).empty());
    EXPECT_EQ(notices.number(6).number, 0u) << "it may go on";
    EXPECT_TRUE(keeps(notices, EarlyMark::of(1, 1), {"seven", "one"}));
    EXPECT_TRUE(notices.placed(EarlyMark::of(1, 1)));
    EXPECT_EQ(notices.number(7).number, 1u);
    EXPECT_TRUE(notices.free_closed(3 * EarlyNotices::longest_rest_ns).empty());
    EXPECT_EQ(notices.number(6).number, 0u) << "it has gone on";
    notices.close_lost(lost, 3 * EarlyNotices::longest_rest_ns);
    notices.free_closed(4 * EarlyNotices::longest_rest_ns + 2 * second);
    EXPECT_EQ(notices.number(6).number, 1u);
}

TEST(EarlyNotices, AClosedNumberIsTheLastToBeGivenOutAgain) {
    constexpr std::uint64_t second = 1'000'000'000, start = 1000 * second;
    EarlyNotices notices;
    ASSERT_EQ(notices.number(7).number, 1u);
    ASSERT_EQ(notices.number(8).number, 2u);
    EXPECT_TRUE(keeps(notices, EarlyMark::of(1, 0), {"seven", "waits"}));
    notices.close(8, 1, start);  // another's
    EXPECT_EQ(notices.number(7).number, 1u);
    notices.close(7, 1, start + second);
    EXPECT_EQ(notices.number(7).number, 3u);
    notices.close(7, 1, start + 5 * second);  // said twice
    EXPECT_EQ(notices.number(7).number, 3u);
    notices.close(8, 2, start);
    EXPECT_TRUE(notices.placed(EarlyMark::of(1, 0))) << "sent before it was closed";
    EXPECT_TRUE(keeps(notices, EarlyMark::of(1, 1), {"seven", "is left"}));
    for (std::uint32_t i = 4; i <= EarlyMark::most_writers; ++i)
        ASSERT_EQ(notices.number(100 + i).number, i);
    EXPECT_EQ(notices.number(8).number, 0u);
    const auto after = [&](std::uint64_t time, std::uint64_t instance) {
        std::vector<EarlyNotices::Notice> left = notices.free_closed(start + time);
        return std::pair(notices.number(instance).number, std::move(left));
    };
    EXPECT_EQ(after(EarlyNotices::rest_ns - second, 8).first, 0u) << "more of it may lie unread";
    EXPECT_EQ(after(EarlyNotices::rest_ns + second, 8).first, 2u) << "the one that was closed first";
    EXPECT_EQ(after(EarlyNotices::rest_ns + 9 * second, 9).first, 0u) << "a notice waits for its mark";
    const auto [number, left] = after(EarlyNotices::longest_rest_ns + 2 * second, 9);
    EXPECT_EQ(number, 1u);
    ASSERT_EQ(left.size(), 1u);
    EXPECT_EQ(left[0].message, "is left");
    EXPECT_EQ(notices.instance_of(EarlyMark::of(1, 1)), 9u);
    EXPECT_EQ(after(2 * EarlyNotices::longest_rest_ns, 10).first, 0u) << "none is closed";
}

TEST(EarlyNotices, WhatOneLeavesBehindIsNotTheNextOnes) {
    EarlyNotices notices;
    ASSERT_EQ(notices.number(7).number, 1u);
    EXPECT_TRUE(keeps(notices, EarlyMark::of(1, 0), {"seven", "waits"}));
    EXPECT_FALSE(notices.placed(EarlyMark::of(1, 1)));
    const std::vector<EarlyNotices::Notice> left = end(notices, 7, 1);
    ASSERT_EQ(left.size(), 1u);
    EXPECT_EQ(left[0].message, "waits");
    EXPECT_FALSE(notices.placed(EarlyMark::of(1, 0))) << "nobody's now";
    for (std::uint32_t i = 2; i <= EarlyMark::most_writers; ++i)
        ASSERT_EQ(notices.number(100 + i).number, i) << "the free one comes last";
    ASSERT_EQ(notices.number(8).number, 1u);
    EXPECT_FALSE(notices.placed(EarlyMark::of(1, 0)));
    EXPECT_FALSE(is_placed(notices, EarlyMark::of(1, 1)));
}

TEST(EarlyNotices, OneWriterCrowdsOutNoOther) {
    EarlyNotices notices;
    ASSERT_EQ(notices.number(7).number, 1u);
    ASSERT_EQ(notices.number(8).number, 2u);
    for (std::uint32_t i = 0; i < EarlyNotices::most_unmatched; ++i) {
        ASSERT_TRUE(keeps(notices, EarlyMark::of(1, i), {"seven", "waits"}));
        ASSERT_FALSE(notices.placed(EarlyMark::of(1, 10'000 + i)));
    }
    EXPECT_FALSE(keeps(notices, EarlyMark::of(1, 9'999), {"seven", "one more"}));
    EXPECT_FALSE(notices.placed(EarlyMark::of(1, 20'000)));
    EXPECT_FALSE(is_placed(notices, EarlyMark::of(1, 20'000))) << "not kept";
    EXPECT_TRUE(is_placed(notices, EarlyMark::of(1, 10'000))) << "for what waits for nothing there is room";
    EXPECT_TRUE(keeps(notices, EarlyMark::of(2, 0), {"eight", "waits"}));
    EXPECT_FALSE(notices.placed(EarlyMark::of(2, 1)));
    EXPECT_TRUE(is_placed(notices, EarlyMark::of(2, 1)));
}

TEST(EarlyNotices, TellWritersOnceHalfOfTheirWindowWasLookedAt) {
    EarlyNotices notices;
    ASSERT_EQ(notices.number(7).number, 1u);
    ASSERT_EQ(notices.number(8).number, 2u);
    const std::uint32_t half = wide / 2;
    for (std::uint32_t i = 1; i <= half; ++i) {
        EXPECT_FALSE(notices.owes_credit()) << i;
        EXPECT_TRUE(keeps(notices, EarlyMark::of(1, i), {"seven", "one"}));
        EXPECT_TRUE(notices.placed(EarlyMark::of(1, i)));
        EXPECT_FALSE(notices.placed(EarlyMark::of(2, i)));
        EXPECT_TRUE(is_placed(notices, EarlyMark::of(2, i), "eight"));
    }
    EXPECT_TRUE(notices.owes_credit());
    EarlyNotices::Credits both = notices.take_credits();
    ASSERT_EQ(both.size(), 2u);
    EXPECT_EQ(both.front().agent + " " + std::to_string(both.front().count), "seven " + std::to_string(half));
    EXPECT_EQ(both.back().agent, "eight");
    EXPECT_EQ(both.back().instance, 8u);
    EXPECT_EQ(both.back().number, 2u);
    EXPECT_EQ(both.back().count, half);
    EXPECT_FALSE(notices.owes_credit());
    EXPECT_TRUE(notices.take_credits().empty()) << "another thread tells them already";
    both.pop_front();
    notices.give_back(std::move(both));
    EXPECT_TRUE(notices.owes_credit()) << "nobody has told it";
    ASSERT_FALSE(notices.placed(EarlyMark::of(2, half + 1)));
    ASSERT_TRUE(is_placed(notices, EarlyMark::of(2, half + 1), "eight"));
    both = notices.take_credits();
    ASSERT_EQ(both.size(), 1u);
    EXPECT_EQ(both.front().count, half + 1) << "with the one that came in between";
    EXPECT_FALSE(notices.owes_credit());
}

/// Or is given back after the writer is owed more.
TEST(EarlyNotices, NothingOfWhatIsGivenBackIsForgotten) {
    EarlyNotices notices;
    ASSERT_EQ(notices.number(7).number, 1u);
    const std::uint32_t half = wide / 2;
    std::uint32_t sequence = 0;
    const auto match = [&](std::uint32_t count) { match_some(notices, sequence, count); };
    match(half);
    EarlyNotices::Credits first = notices.take_credits();
    match(half - 1);
    EXPECT_FALSE(notices.owes_credit());
    match(1);
    EXPECT_TRUE(notices.owes_credit());
    notices.give_back(std::move(first));
    EarlyNotices::Credits all = notices.take_credits();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all.front().count, 2 * half);
    notices.give_back(std::move(all));
    EarlyNotices::Credits of_one_that_goes = notices.take_credits();
    match(half);
    end(notices, 7, 1);
    EXPECT_FALSE(notices.owes_credit()) << "nobody is there to be told";
    notices.give_back(std::move(of_one_that_goes));
    EXPECT_FALSE(notices.owes_credit());
}

/// Nobody is known by that number of an instance, and it goes on.
TEST(EarlyNotices, WhatIsPutOffIsOwedWithTheNextOrOnceTheWriterIsKnown) {
    EarlyNotices notices;
    ASSERT_EQ(notices.number(7).number, 1u);
    const std::uint32_t half = wide / 2;
    std::uint32_t sequence = 0;
    const auto match = [&](std::uint32_t count) { match_some(notices, sequence, count); };
    const auto put_off = [&](std::uint32_t expected) {
        EXPECT_TRUE(notices.owes_credit());
        const EarlyNotices::Credits credits = notices.take_credits();
        ASSERT_EQ(credits.size(), 1u);
        EXPECT_EQ(credits.front().agent, "seven");
        EXPECT_EQ(credits.front().count, expected);
        notices.put_off(credits.front());
        EXPECT_FALSE(notices.owes_credit()) << "it is looked for in vain all the time";
    };
    match(half - 1);
    notices.owe("seven", 7);
    EXPECT_FALSE(notices.owes_credit()) << "not half of the window";
    match(1);
    put_off(half);
    match(1);
    put_off(half + 1);
    notices.owe("eight", 8);
    EXPECT_FALSE(notices.owes_credit());
    notices.owe("seven", 7);
    notices.owe("seven", 7);
    put_off(half + 1);
    match(1);
    const EarlyNotices::Credits of_one_that_goes = notices.take_credits();
    end(notices, 7, 1);
    notices.put_off(of_one_that_goes.front());
    std::uint64_t other = 1000;
    for (std::uint32_t number = 2; number <= EarlyMark::most_writers; ++number)
        ASSERT_EQ(notices.number(other++).number, number);
    ASSERT_EQ(notices.number(8).number, 1u);
    notices.owe("eight", 8);
    EXPECT_FALSE(notices.owes_credit()) << "another one's";
}

TEST(EarlyNotices, OfSeveralOperationsTheNoticeWaitsForAllMarks) {
    EarlyNotices notices;
    ASSERT_EQ(notices.number(7).number, 1u);
    const auto mark = [](std::uint32_t sequence) { return EarlyMark::of(1, sequence); };
    const std::uint8_t all = EarlyMark::most_operations;
    for (const std::uint32_t early : {0u, 1u, 40u, 63u, 64u}) {
        const std::uint32_t first = 1000 * (early + 1);
        for (std::uint32_t i = 0; i < early; ++i)
            EXPECT_FALSE(notices.placed(mark(first + i)));
        EarlyNotices::Notice notice{"seven", "all there"};
        const EarlyNotices::Taken taken = notices.take({mark(first), all}, notice);
        EXPECT_EQ(taken, early == all ? EarlyNotices::Taken::in_place : EarlyNotices::Taken::kept);
        for (std::uint32_t i = early; i < all; ++i) {
            const auto last = notices.placed(mark(first + all - 1 - (i - early)));
            EXPECT_EQ(last.has_value(), i + 1 == all) << early << ", " << i;
        }
        EXPECT_FALSE(notices.placed(mark(first))) << "it served once";
        const EarlyNotices::Credits credits = notices.take_credits();
        ASSERT_EQ(credits.size(), 1u);
        EXPECT_EQ(credits.front().count, all) << early;
    }
}

/// Each mark is one notice's.
TEST(EarlyNotices, MarksThatAnotherNoticeHasAreRefused) {
    EarlyNotices notices;
    ASSERT_EQ(notices.number(7).number, 1u);
    ASSERT_EQ(notices.number(8).number, 2u);
    const auto take = [&](std::uint32_t first, unsigned operations, std::uint32_t writer = 1) {
        EarlyNotices::Notice notice{"seven", "waits"};
        return notices.take({EarlyMark::of(writer, first), static_cast<std::uint8_t>(operations)}, notice) !=
               EarlyNotices::Taken::refused;
    };
    EXPECT_TRUE(take(100, 10));
    for (const std::uint32_t first : {95u, 99u, 100u, 105u, 109u})
        EXPECT_FALSE(take(first, 6)) << first;
    EXPECT_FALSE(notices.placed(EarlyMark::of(1, 100)));
    EXPECT_FALSE(take(100, 1)) << "in place, and the notice still waits for others";
    EXPECT_TRUE(take(94, 6));
    EXPECT_TRUE(take(110, 6));
    EXPECT_FALSE(take(1000, 0));
    EXPECT_FALSE(take(1000, EarlyMark::most_operations + 1));
    EXPECT_FALSE(take(EarlyMark::sequences - 1, 2)) << "the next one is another writer's";
    EXPECT_TRUE(take(EarlyMark::sequences - 2, 2));
    EXPECT_TRUE(take(0, 1, 2));
}

}  // namespace
}  // namespace railyard
