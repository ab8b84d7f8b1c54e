#include "engine/address_list.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace railyard {
namespace {

TEST(AddressList, HasWhatItWasMadeOf) {
    const std::vector<std::string> addresses{std::string("a\0b", 3), "", std::string(256, 'x'), "c"};
    const AddressList list(addresses);
    ASSERT_EQ(list.size(), addresses.size());
    for (std::size_t i = 0; i < addresses.size(); ++i)
        EXPECT_EQ(list.at(i), addresses[i]) << i;
    EXPECT_THROW(static_cast<void>(list.at(4)), std::out_of_range);
    EXPECT_TRUE(list == addresses);
}

TEST(AddressList, TheSameBytesCutElsewhereAreOtherAddresses) {
    const AddressList list({"ab", "c"});
    EXPECT_FALSE(list == (std::vector<std::string>{"a", "bc"}));
    EXPECT_FALSE(list == (std::vector<std::string>{"ab"}));
    EXPECT_FALSE(list == (std::vector<std::string>{"ab", "c", ""}));
    EXPECT_FALSE(list == (std::vector<std::string>{"ab", "d"}));
}

}  // namespace
}  // namespace railyard
