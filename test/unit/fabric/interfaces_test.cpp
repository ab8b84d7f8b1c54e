#include "fabric/interfaces.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace railyard::fabric {
namespace {

const std::vector<NetworkInterface> machine = {{"lo", true, true},
                                               {"docker0", true, false},
                                               {"eth9", false, false},
                                               {"eth0", true, false},
                                               {"eth1", true, false}};

TEST(Interfaces, TheRoutedOneIsChosen) {
    EXPECT_EQ(choose_interface(machine, "eth1"), "eth1");
}

TEST(Interfaces, WithoutARouteTheFirstRealOneThatIsUp) {
    EXPECT_EQ(choose_interface(machine, ""), "eth0");
}

TEST(Interfaces, ARouteOverADownInterfaceIsNotTaken) {
    EXPECT_EQ(choose_interface(machine, "eth9"), "eth0");
}

TEST(Interfaces, TheLoopbackIsTheLastResort) {
    EXPECT_EQ(choose_interface({{"docker0", true, false}, {"lo", true, true}}, ""), "lo");
    EXPECT_EQ(choose_interface({{"eth0", false, false}}, ""), "");
}

TEST(Interfaces, TheDefaultRouteWithTheLowestMetricCounts) {
    const char* table =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
        "wlan0\t00000000\t0102A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n"
        "eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
        "eth5\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
    EXPECT_EQ(default_route_interface(table), "eth0");
    EXPECT_EQ(default_route_interface("Iface\n"), "");
    EXPECT_EQ(default_route_interface(""), "");
}

TEST(Interfaces, BridgesOfContainersAreKnown) {
    for (const char* name : {"docker0", "br-1a2b", "veth12", "virbr0", "cni0"})
        EXPECT_TRUE(is_container_bridge(name)) << name;
    for (const char* name : {"eth0", "ens5", "bond0", "br0"})
        EXPECT_FALSE(is_container_bridge(name)) << name;
}

TEST(Interfaces, ThisMachineHasALoopback) {
    const auto all = network_interfaces();
    EXPECT_TRUE(
        std::any_of(all.begin(), all.end(), [](const NetworkInterface& i) { return i.loopback && i.up; }));
}

}  // namespace
}  // namespace railyard::fabric
