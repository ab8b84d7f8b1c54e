#include "size_list.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace railyard::bench {
namespace {

using Sizes = std::vector<std::uint64_t>;

TEST(SizeList, RangeDoubles) {
    EXPECT_EQ(parse_size_list("8:64"), (Sizes{8, 16, 32, 64}));
    EXPECT_EQ(parse_size_list("1K:4K"), (Sizes{1024, 2048, 4096}));
    EXPECT_EQ(parse_size_list("8:16M").size(), 22u);
    EXPECT_EQ(parse_size_list("8:16M").back(), 16u << 20);
}

TEST(SizeList, RangeStopsBelowItsEnd) {
    EXPECT_EQ(parse_size_list("3:20"), (Sizes{3, 6, 12}));
    EXPECT_EQ(parse_size_list("5:5"), (Sizes{5}));
}

TEST(SizeList, ListKeepsItsOrder) {
    EXPECT_EQ(parse_size_list("64K,8,1:4,2M"), (Sizes{65536, 8, 1, 2, 4, 2u << 20}));
}

TEST(SizeList, LargestRangeEnds) {
    EXPECT_EQ(parse_size_list("9223372036854775808:18446744073709551615"), (Sizes{std::uint64_t{1} << 63}));
}

TEST(SizeList, BadTextIsRefused) {
    for (const char* text : {"", ",", "8,", "x", "8:", ":8", "16:8", "0", "0:8", "8KB", "-1", "8 ", "1.5K",
                             "K", "8:16:32", "18446744073709551616", "99999999999G"}) {
        EXPECT_THROW(parse_size_list(text), std::invalid_argument) << text;
    }
}

TEST(SizeList, FormatIsExact) {
    EXPECT_EQ(format_size(8), "8");
    EXPECT_EQ(format_size(4096), "4K");
    EXPECT_EQ(format_size(16u << 20), "16M");
    EXPECT_EQ(format_size(std::uint64_t{3} << 30), "3G");
    EXPECT_EQ(format_size(1025), "1025");
    EXPECT_EQ(format_size(0), "0");
}

}  // namespace
}  // namespace railyard::bench
