// How many rails a device gets, and how many chunks of a block each of them.
#include <gtest/gtest.h>

#include "fabric/interfaces.h"
#include "manager/rail_manager.h"

namespace railyard {
namespace {

struct NullSink final : ControlSink {
    bool on_control(std::span<const std::byte>) noexcept override { return true; }
};

std::size_t rails(const ParamMap& params) {
    NullSink sink;
    return RailManager(Params::parse(params), false, sink).size();
}

/// 0: tcp cannot use it.
std::size_t rails_on(const std::string& interface) {
    try {
        return rails({{"provider", "tcp"}, {"devices", interface}});
    } catch (const Error&) {
        return 0;
    }
}

std::uint64_t chunks_a_rail(const ParamMap& params) {
    NullSink sink;
    return RailManager(Params::parse(params), false, sink).rules().chunks_a_rail;
}

TEST(RailCount, TcpHasTwoConnectionsUnlessTold) {
    std::string name;
    for (const fabric::NetworkInterface& interface : fabric::network_interfaces())
        if (interface.up && !interface.loopback && rails_on(interface.name) != 0) name = interface.name;
    if (name.empty()) GTEST_SKIP() << "needs a network interface besides the loopback";
    EXPECT_EQ(rails_on(name), 2u);
    EXPECT_EQ(rails({{"provider", "tcp"}, {"devices", name}, {"rails_per_device", "1"}}), 1u);
    EXPECT_EQ(rails({{"provider", "tcp"}, {"devices", name}, {"rails", "1"}}), 1u);
}

TEST(RailCount, OverLoopbackTcpHasOneUnlessTold) {
    EXPECT_EQ(rails_on("lo"), 1u);
    EXPECT_EQ(rails({{"provider", "tcp"}, {"devices", "lo"}, {"rails_per_device", "2"}}), 2u);
}

TEST(RailCount, OthersHaveOne) {
    EXPECT_EQ(rails({{"provider", "shm"}}), 1u);
    EXPECT_EQ(rails({{"provider", "shm"}, {"rails_per_device", "3"}}), 3u);
}

TEST(RailRules, ConnectionsOfOneInterfaceGetOneChunkOfABlock) {
    EXPECT_EQ(chunks_a_rail({{"provider", "tcp"}, {"devices", "lo"}}), 1u);
    EXPECT_EQ(chunks_a_rail({{"provider", "tcp"}, {"devices", "lo"}, {"oob_interface", "lo"}}), 1u);
    EXPECT_EQ(chunks_a_rail({{"provider", "shm"}, {"rails_per_device", "3"}}), 4u);
}

}  // namespace
}  // namespace railyard
