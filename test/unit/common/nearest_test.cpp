#include "common/nearest.h"

#include <gtest/gtest.h>

namespace railyard {
namespace {

const std::vector<std::string> names{"provider", "rails", "rails_per_device", "tcp", "tcp-msg"};

TEST(Nearest, FindsWhatWasMeant) {
    EXPECT_EQ(nearest("provder", names), "provider");
    EXPECT_EQ(nearest("rials", names), "rails");
    EXPECT_EQ(nearest("railss", names), "rails");
    EXPECT_EQ(nearest("TCP", names), "tcp");
    EXPECT_EQ(nearest("tpc", names), "tcp");
    EXPECT_EQ(nearest("tcp_msg", names), "tcp-msg");
    EXPECT_EQ(nearest("rails_per_devise", names), "rails_per_device");
}

TEST(Nearest, GuessesNothingFarFetched) {
    for (const char* far : {"", "x", "colour", "railyard_is_fast"})
        EXPECT_EQ(nearest(far, names), "") << far;
    EXPECT_EQ(guess("colour", names), "");
    EXPECT_EQ(guess("tpc", names), " (did you mean tcp?)");
}

}  // namespace
}  // namespace railyard
