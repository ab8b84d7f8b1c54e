// The small parts of flows: names of units, and what the two sides tell each other.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/status.h"
#include "common/wire.h"
#include "flow/immediate.h"
#include "flow/letters.h"

namespace railyard::flow {
namespace parts_test {

/// The status of the Error that `call` throws; ok where it throws none.
template <class Call>
Status refusal(Call call) {
    try {
        call();
    } catch (const Error& error) {
        return error.status();
    }
    return Status::ok;
}

/// Grains and units.
const std::vector<std::pair<std::uint32_t, std::uint32_t>> shapes{
    {0, 0},      {1, 1},     {1, 2},       {2, 1},       {2, 2},      {3, 3},
    {1, 4096},   {16384, 1}, {255, 4096},  {256, 4096},  {257, 2},    {16383, 63},
    {16384, 64}, {5, 1000},  {1 << 20, 1}, {1, 1 << 20}, {1024, 1024}};

/// 0, 1, the middle and the last of so many.
std::set<std::uint32_t> corners(std::uint64_t count) {
    const auto last = static_cast<std::uint32_t>(count ? count - 1 : 0);
    return {0, std::min(1u, last), last / 2, last};
}

TEST(NameBits, ComeBackAsTheyWere) {
    for (const auto& [grains, units] : shapes) {
        const NameBits bits(grains, units);
        ASSERT_TRUE(bits.fits()) << grains << " " << units;
        ASSERT_GE(bits.round_bits(), least_round_bits);
        for (const std::uint32_t source : corners(most_sources))
            for (const std::uint32_t round : corners(std::uint64_t{1} << bits.round_bits()))
                for (const std::uint32_t index : corners(grains))
                    for (const std::uint32_t unit : corners(units)) {
                        const UnitName name{source, round, index, unit};
                        const std::uint32_t packed = bits.pack(name);
                        EXPECT_EQ(bits.unpack(packed), name) << grains << " " << units << " " << packed;
                        EXPECT_EQ(NameBits::source_of(packed), source);
                    }
    }
}

TEST(NameBits, EveryNameHasItsOwnNumber) {
    const NameBits bits(100, 1000);
    std::set<std::uint32_t> seen;
    for (std::uint32_t index = 0; index < 100; ++index)
        for (std::uint32_t unit = 0; unit < 1000; ++unit)
            EXPECT_TRUE(seen.insert(bits.pack({3, 200, index, unit})).second) << index << " " << unit;
    EXPECT_NE(bits.pack({3, 200, 1, 1}), bits.pack({3, 201, 1, 1}));
    EXPECT_NE(bits.pack({3, 200, 1, 1}), bits.pack({4, 200, 1, 1}));
}

TEST(NameBits, AddingToTheUnitIsAddingToTheNumber) {
    for (const auto& [grains, units] : shapes) {
        const NameBits bits(grains, units);
        const UnitName first{most_sources - 1, ~0u, grains ? grains - 1 : 0, 0};
        for (const std::uint32_t unit : corners(units)) {
            UnitName name = first;
            name.unit = unit;
            EXPECT_EQ(bits.pack(name), bits.pack(first) + unit) << grains << " " << units;
        }
    }
}

TEST(NameBits, TheSourceStandsWhereItStands) {
    for (const auto& [grains, units] : shapes) {
        const NameBits bits(grains, units);
        for (std::uint32_t source = 0; source < most_sources; ++source) {
            EXPECT_EQ(bits.pack({source, 0, 0, 0}), source << 28);
            EXPECT_EQ(NameBits::source_of(bits.pack({source, ~0u, ~0u, ~0u})), source);
        }
    }
    EXPECT_EQ(NameBits::source_of(0xF0000000), 15u);
    EXPECT_EQ(NameBits::source_of(0x0FFFFFFF), 0u);
}

TEST(NameBits, WhatIsTooLargeSpoilsNoNeighbour) {
    const NameBits bits(4, 8);
    EXPECT_EQ(bits.unpack(bits.pack({1, ~0u, 0, 0})), (UnitName{1, (1u << 23) - 1, 0, 0}));
    EXPECT_EQ(bits.unpack(bits.pack({1, 2, 3 + 4, 5 + 8})), (UnitName{1, 2, 3, 5}));
    EXPECT_EQ(bits.unpack(bits.pack({1 + 16, 2, 3, 5})), (UnitName{1, 2, 3, 5}));
}

TEST(NameBits, FitWhereRoundsKeepEnough) {
    EXPECT_EQ(most_name_bits, 20u);
    EXPECT_EQ(NameBits().round_bits(), 28u);
    EXPECT_EQ(NameBits(1, 1).round_bits(), 28u);
    EXPECT_EQ(NameBits(2, 1).round_bits(), 27u);
    EXPECT_EQ(NameBits(5, 4).round_bits(), 23u);
    EXPECT_EQ(NameBits(16384, 64).round_bits(), 8u);
    for (const auto& [grains, units] :
         std::vector<std::pair<std::uint32_t, std::uint32_t>>{{16384, 65},
                                                              {16385, 64},
                                                              {257, 4096},
                                                              {256, 4097},
                                                              {(1 << 20) + 1, 1},
                                                              {1, (1 << 20) + 1},
                                                              {~0u, ~0u}})
        EXPECT_FALSE(NameBits(grains, units).fits()) << grains << " " << units;
}

/// In the order of the fields: kind, number of the talk, unit, connection, source, reason, index, round,
/// first, count.
const std::vector<FlowLetter> letters{
    {LetterKind::open, 7, 0x1122334455667788, std::string("\0connection\xff", 12)},
    {LetterKind::open, 0, 0, ""},
    {LetterKind::taken, ~0u, 0, "", 15},
    {LetterKind::refused, 3, 0, "", 0, "it has 16 sources already"},
    {LetterKind::refused, 3},
    {LetterKind::grain, 1, 0, "", 0, "", 2, 0x89abcdef, 4, ~0u},
    {LetterKind::close, 0x01020304}};

auto fields_of(const FlowLetter& letter) {
    const auto& [kind, talk, unit, connection, source, reason, index, round, first, count] = letter;
    return std::tie(kind, talk, unit, connection, source, reason, index, round, first, count);
}

Status reading(const std::string& text) {
    return refusal([&] { static_cast<void>(decode_letter(text)); });
}

TEST(Letters, ComeBackAsTheyWere) {
    std::string room;
    for (const FlowLetter& letter : letters) {
        const std::string text = encode(letter);
        EXPECT_EQ(fields_of(decode_letter(text)), fields_of(letter));
        encode(letter, room);
        EXPECT_EQ(room, text) << "nothing is left of the letter before";
    }
}

TEST(Letters, FieldsOfOtherKindsDoNotTravel) {
    FlowLetter all{LetterKind::open, 1, 2, "connection", 3, "reason", 4, 5, 6, 7};
    for (const LetterKind kind :
         {LetterKind::open, LetterKind::taken, LetterKind::refused, LetterKind::grain, LetterKind::close}) {
        all.kind = kind;
        const FlowLetter read = decode_letter(encode(all));
        const bool open = kind == LetterKind::open, grain = kind == LetterKind::grain;
        const FlowLetter wanted{kind,
                                1,
                                open ? 2u : 0,
                                open ? "connection" : "",
                                kind == LetterKind::taken ? 3u : 0,
                                kind == LetterKind::refused ? "reason" : "",
                                grain ? 4u : 0,
                                grain ? 5u : 0,
                                grain ? 6u : 0,
                                grain ? 7u : 0};
        EXPECT_EQ(fields_of(read), fields_of(wanted)) << static_cast<int>(kind);
    }
}

TEST(Letters, WrittenIntoATextKeepItsRoom) {
    std::string text;
    text.reserve(1000);
    const char* const room = text.data();
    for (const FlowLetter& letter : letters)
        encode(letter, text);
    EXPECT_EQ(text.data(), room);
}

TEST(Letters, EveryTruncationIsRefused) {
    for (const FlowLetter& letter : letters) {
        const std::string text = encode(letter);
        for (std::size_t size = 0; size < text.size(); ++size)
            EXPECT_EQ(reading(text.substr(0, size)), Status::mismatch) << size << " of " << text.size();
    }
}

TEST(Letters, ATrailingByteIsRefused) {
    for (const FlowLetter& letter : letters) {
        EXPECT_EQ(reading(encode(letter) + '\0'), Status::mismatch);
        EXPECT_EQ(reading(encode(letter) + encode(letter)), Status::mismatch);
    }
}

TEST(Letters, OfAnotherVersionOrKindAreRefused) {
    for (const FlowLetter& letter : letters) {
        const std::string good = encode(letter);
        for (std::size_t at = 0; at < 4; ++at) {
            for (const char change : {'\1', '\2', '\x80'}) {
                std::string text = good;
                text[at] = static_cast<char>(text[at] ^ change);
                EXPECT_EQ(reading(text), Status::mismatch) << at;
            }
        }
    }
    const std::string close = encode(letters.back());
    for (int kind = 0; kind < 256; ++kind) {
        std::string text = close;
        text[4] = static_cast<char>(kind);
        EXPECT_EQ(reading(text), kind == 5 ? Status::ok : Status::mismatch) << kind;
    }
}

TEST(Letters, NameSourcesThatThereCanBe) {
    for (const std::uint32_t source : {16u, 17u, 255u, 256u, 0x10000000u, 0x80000000u, ~0u})
        EXPECT_EQ(reading(encode(FlowLetter{LetterKind::taken, 1, 0, "", source})), Status::mismatch)
            << source;
    for (std::uint32_t source = 0; source < most_sources; ++source)
        EXPECT_EQ(decode_letter(encode(FlowLetter{LetterKind::taken, 1, 0, "", source})).source, source);
}

TEST(Letters, LengthsThatLieAreRefused) {
    for (const std::uint32_t length : {1u, 1u << 20, (1u << 20) + 1, 1u << 31, ~0u}) {
        for (const LetterKind kind : {LetterKind::open, LetterKind::refused}) {
            std::string text = encode(FlowLetter{kind, 1});
            text.resize(text.size() - 4);
            WireWriter(text).number(length);
            EXPECT_EQ(reading(text), Status::mismatch) << length;
        }
    }
    std::string endless = encode(FlowLetter{LetterKind::refused, 1});
    endless.resize(endless.size() - 4);
    WireWriter(endless).bytes(std::string(1025, 'r'));
    EXPECT_EQ(reading(endless), Status::mismatch);
}

TEST(Letters, LongReasonsAreCutNotRefused) {
    const FlowLetter read =
        decode_letter(encode(FlowLetter{LetterKind::refused, 1, 0, "", 0, std::string(5000, 'r')}));
    EXPECT_EQ(read.reason, std::string(1024, 'r'));
}

}  // namespace parts_test
}  // namespace railyard::flow
