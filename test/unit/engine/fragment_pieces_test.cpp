#include "engine/fragment_pieces.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace railyard {
namespace {

TEST(FragmentPieces, OverlapsAreRefusedAndGapsSeen) {
    const std::string text = "0123456789abcdefghijABCDEFGHIJ!?.,;:-_+*";
    FragmentPieces pieces;
    auto add = [&](std::uint32_t begin, std::uint32_t end) {
        return pieces.add(begin, std::string_view(text).substr(begin, end - begin));
    };
    EXPECT_TRUE(add(10, 20));
    EXPECT_TRUE(add(30, 40));
    const std::size_t held = pieces.held();
    EXPECT_FALSE(add(15, 18));
    EXPECT_FALSE(add(10, 20));
    EXPECT_FALSE(add(5, 11));
    EXPECT_FALSE(add(19, 31));
    EXPECT_FALSE(add(0, 40));
    EXPECT_EQ(pieces.held(), held) << "a refused fragment costs something";
    EXPECT_FALSE(pieces.whole(40));
    EXPECT_TRUE(add(20, 30));
    EXPECT_FALSE(pieces.whole(40));
    EXPECT_TRUE(add(0, 10));
    EXPECT_TRUE(pieces.whole(40));
    EXPECT_FALSE(pieces.whole(41));
    EXPECT_EQ(pieces.take(), text);
}

TEST(FragmentPieces, WhatHasComeIsKnownWhereverItIsCut) {
    FragmentPieces pieces;
    EXPECT_FALSE(pieces.has(0, "x"));
    EXPECT_TRUE(pieces.add(20, "klmno"));
    EXPECT_TRUE(pieces.add(10, "abcde"));
    EXPECT_TRUE(pieces.add(16, "ghij"));
    EXPECT_TRUE(pieces.has(10, "abcde"));
    EXPECT_TRUE(pieces.has(11, "bcd"));
    EXPECT_TRUE(pieces.has(18, "ijkl")) << "of two pieces";
    EXPECT_TRUE(pieces.has(16, "ghijklmno"));
    EXPECT_FALSE(pieces.has(18, "ijkx")) << "other bytes";
    EXPECT_FALSE(pieces.has(9, "xabc"));
    EXPECT_FALSE(pieces.has(12, "cdefgh")) << "one is missing";
    EXPECT_FALSE(pieces.has(22, "mnop")) << "past the end";
    EXPECT_FALSE(pieces.has(25, "p"));
}

}  // namespace
}  // namespace railyard
