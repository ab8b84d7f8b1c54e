// How many rails a device gets.
#include <gtest/gtest.h>

#include "manager/rail_manager.h"

namespace railyard {
namespace {

struct NullSink final : ControlSink {
    void on_control(std::span<const std::byte>) noexcept override {}
};

std::size_t rails(const ParamMap& params) {
    NullSink sink;
    return RailManager(Params::parse(params), false, sink).size();
}

TEST(RailCount, TcpHasTwoConnectionsUnlessTold) {
    EXPECT_EQ(rails({{"provider", "tcp"}, {"devices", "lo"}}), 2u);
    EXPECT_EQ(rails({{"provider", "tcp"}, {"devices", "lo"}, {"rails_per_device", "1"}}), 1u);
    EXPECT_EQ(rails({{"provider", "tcp"}, {"devices", "lo"}, {"rails", "1"}}), 1u);
}

TEST(RailCount, OthersHaveOne) {
    EXPECT_EQ(rails({{"provider", "shm"}}), 1u);
    EXPECT_EQ(rails({{"provider", "shm"}, {"rails_per_device", "3"}}), 3u);
}

}  // namespace
}  // namespace railyard
