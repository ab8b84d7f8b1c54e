#include "common/wire.h"

#include <gtest/gtest.h>

#include "common/crc32.h"

namespace railyard {
namespace {

TEST(Crc32, MatchesTheStandardCheckValue) {
    EXPECT_EQ(crc32("123456789"), 0xCBF43926u);
}

TEST(Wire, NumbersAreLittleEndianAndComeBack) {
    std::string out;
    WireWriter writer(out);
    writer.number(std::uint16_t{0x1234});
    writer.number(std::uint64_t{0xFFEEDDCCBBAA0099});
    writer.bytes("rail");
    EXPECT_EQ(out.substr(0, 2), std::string("\x34\x12", 2));
    WireReader reader(out);
    EXPECT_EQ(reader.number<std::uint16_t>(), 0x1234);
    EXPECT_EQ(reader.number<std::uint64_t>(), 0xFFEEDDCCBBAA0099u);
    EXPECT_EQ(reader.bytes(4), "rail");
    EXPECT_TRUE(reader.whole());
}

TEST(Wire, NothingIsReadBeyondTheEnd) {
    std::string out;
    WireWriter(out).bytes("abcdef");
    for (std::size_t size = 0; size < out.size(); ++size) {
        WireReader reader(std::string_view(out).substr(0, size));
        EXPECT_TRUE(reader.bytes(100).empty()) << size;
        EXPECT_FALSE(reader.ok()) << size;
        EXPECT_EQ(reader.number<std::uint64_t>(), 0u);
    }
    WireReader limited(out);
    EXPECT_TRUE(limited.bytes(5).empty());
    EXPECT_FALSE(limited.ok());
    WireReader partial(out);
    partial.number<std::uint32_t>();
    EXPECT_FALSE(partial.whole());
    EXPECT_EQ(partial.rest(), "abcdef");
    EXPECT_TRUE(partial.whole());
}

}  // namespace
}  // namespace railyard
