#include "manager/known_ranges.h"

#include <gtest/gtest.h>

#include <vector>

#include "manager/registration.h"

namespace railyard {
namespace {

KnownRange::Place place(std::uint64_t address) {
    return {address, 4096, 0, MemoryType::host, 0};
}

std::uint64_t last_number = 0;

/// Its number, after it was used once; with that word, if any.
std::uint64_t use(KnownRanges& ranges, const KnownRange::Place& where, std::uint64_t word = 0) {
    KnownRange& range = ranges.enter(where);
    std::uint64_t number = 0;
    {
        const MutexLock lock(range.mutex);
        if (range.names.number == 0) range.names.number = ++last_number;
        number = range.names.number;
        if (word) range.names.word = word;
    }
    ranges.leave(range);
    return number;
}

std::uint64_t word_of(KnownRanges& ranges, const KnownRange::Place& where) {
    KnownRange& range = ranges.enter(where);
    std::uint64_t word = 0;
    {
        const MutexLock lock(range.mutex);
        word = range.names.word;
    }
    ranges.leave(range);
    return word;
}

TEST(KnownRanges, KeepsTheNamesOfARange) {
    KnownRanges ranges(true);
    const std::uint64_t number = use(ranges, place(1), 7);
    EXPECT_NE(number, 0u);
    EXPECT_EQ(use(ranges, place(1)), number);
    EXPECT_EQ(word_of(ranges, place(1)), 7u);
}

TEST(KnownRanges, WithoutANumberItIsForgotten) {
    KnownRanges ranges(true);
    const std::uint64_t number = use(ranges, place(1), 7);
    KnownRange& range = ranges.enter(place(1));
    {
        const MutexLock lock(range.mutex);
        range.names.number = 0;
    }
    ranges.leave(range);
    EXPECT_EQ(word_of(ranges, place(1)), 0u);
    EXPECT_NE(use(ranges, place(1)), number);
}

TEST(KnownRanges, TellsRangesApart) {
    KnownRanges ranges(true);
    const std::uint64_t number = use(ranges, place(1));
    KnownRange::Place other = place(1);
    EXPECT_NE(use(ranges, place(2)), number);
    other.length = 1;
    EXPECT_NE(use(ranges, other), number);
    (other = place(1)).device_id = 1;
    EXPECT_NE(use(ranges, other), number);
    (other = place(1)).type = MemoryType::device;
    EXPECT_NE(use(ranges, other), number);
    (other = place(1)).allocation = 1;
    EXPECT_NE(use(ranges, other), number);
}

TEST(KnownRanges, WhoUsesARangeAtTheSameTimeSharesIt) {
    KnownRanges ranges(true);
    KnownRange &one = ranges.enter(place(1)), &two = ranges.enter(place(1));
    EXPECT_EQ(&one, &two);
    ranges.leave(one);
    EXPECT_EQ(&ranges.enter(place(1)), &two) << "there was still one";
    ranges.leave(two);
    ranges.leave(two);
}

TEST(KnownRanges, KeepsAllThatAreUsedAndTheLastOfTheOthers) {
    KnownRanges ranges(true);
    KnownRange& kept = ranges.enter(place(1));
    const std::uint64_t first = use(ranges, place(2)), second = use(ranges, place(3));
    for (std::uint64_t i = 0; i < KnownRanges::most_left - 1; ++i)
        use(ranges, place(100 + i));
    EXPECT_EQ(use(ranges, place(3)), second);
    EXPECT_NE(use(ranges, place(2)), first) << "it had to make room";
    EXPECT_EQ(&ranges.enter(place(1)), &kept);
}

TEST(KnownRanges, HaveTheLatestRegistrationFirst) {
    KnownRange range(place(1), {});
    Registration first, second, third;
    const MutexLock lock(range.mutex);
    for (Registration* region : {&first, &second, &third})
        range.add(*region);
    const auto are =
        [&](std::vector<const Registration*> expected) ABSL_EXCLUSIVE_LOCKS_REQUIRED(range.mutex) {
            std::vector<const Registration*> found;
            for (const Registration* region = range.registered; region; region = region->earlier)
                found.push_back(region);
            EXPECT_EQ(found, expected);
        };
    are({&third, &second, &first});
    range.remove(second);
    are({&third, &first});
    range.remove(second);
    range.remove(third);
    are({&first});
    range.remove(first);
    are({});
}

TEST(KnownRanges, ThatAreToKeepNothingDoNot) {
    KnownRanges ranges(false);
    KnownRange &one = ranges.enter(place(1)), &two = ranges.enter(place(1));
    EXPECT_NE(&one, &two);
    ranges.leave(one);
    ranges.leave(two);
    EXPECT_NE(use(ranges, place(1)), use(ranges, place(1)));
}

}  // namespace
}  // namespace railyard
