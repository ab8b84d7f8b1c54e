// Which devices of libfabric's are kept, on machines that are not here.
#include "fabric/usable.h"

#include <gtest/gtest.h>

#include "fabric/choices.h"
#include "log_lines.h"

namespace railyard::fabric {
namespace usable_test {

constexpr AddressKind ipv4 = AddressKind::ipv4, link_local = AddressKind::link_local_ipv6,
                      no_address = AddressKind::none;
const NetworkInterface loopback{"lo", true, true, ipv4};
using Names = std::vector<std::string>;

/// What is kept of these devices of tcp, or of another family.
Names kept(const Names& offered, const Network& network, const char* devices = "",
           const char* family = "tcp") {
    std::vector<Device> all;
    for (const std::string& name : offered) {
        all.emplace_back();
        all.back().info.reset(fi_allocinfo());
        all.back().provider = all.back().family = family;
        all.back().name = name;
    }
    keep_usable(all, family, parse_device_filter(devices), network);
    Names names;
    for (const Device& device : all)
        names.push_back(device.name);
    return names;
}

/// A bond's slave, without an address, comes first.
TEST(Usable, AnInterfaceThatLibfabricDoesNotOfferIsNotChosen) {
    const Network bonded{{loopback, {"eno1", true, false, no_address}, {"bond0", true, false, ipv4}}, ""};
    EXPECT_EQ(kept({"bond0", "lo"}, bonded), Names{"bond0"});
    EXPECT_EQ(kept({"bond0", "lo"}, {bonded.interfaces, "eno1"}), Names{"bond0"});
    EXPECT_EQ(kept({"bond0", "lo"}, bonded, "^lo"), Names{"bond0"});
    EXPECT_EQ(kept({"bond0", "lo"}, bonded, "", "tcp-msg"), Names{"bond0"});
}

/// As FI_TCP_IFACE has it.
TEST(Usable, TheOnlyOneThatLibfabricOffersIsTakenPastTheDefaultRoute) {
    const Network network{{loopback, {"eth0", true, false, ipv4}, {"ib0", true, false, ipv4}}, "eth0"};
    EXPECT_EQ(kept({"ib0"}, network), Names{"ib0"});
    EXPECT_EQ(kept({"ib0", "eth0", "lo"}, network), Names{"eth0"});
    EXPECT_EQ(kept({"ib0", "eth0", "lo"}, network, "^eth0"), Names{"ib0"});
}

TEST(Usable, ALinkLocalAddressIsNoMatchForAnother) {
    const Network network{{loopback, {"eno1", true, false, link_local}, {"bond0", true, false, ipv4}}, ""};
    EXPECT_EQ(kept({"eno1", "bond0", "lo"}, network), Names{"bond0"});
}

TEST(Usable, TheLoopbackIsTakenWhereThereIsNothingElse) {
    EXPECT_EQ(kept({"lo"}, {{loopback}, ""}), Names{"lo"});
    EXPECT_EQ(kept({"lo"}, {{loopback, {"eno1", true, false, no_address}}, ""}), Names{"lo"});
}

TEST(Usable, WhatIsDownOrNoInterfaceIsNot) {
    const test::LogLines log;
    const Network network{{loopback, {"eth0", false, false, ipv4}, {"eth1", true, false, ipv4}}, ""};
    EXPECT_EQ(kept({"eth0", "eth1"}, network), Names{"eth1"});
    EXPECT_EQ(kept({"eth0", "eth1"}, network, "eth0,eth1"), Names{"eth1"});
    EXPECT_EQ(log.count("eth0: interface is down"), 2);
    EXPECT_EQ(kept({"tcp"}, network), Names{}) << "FI_TCP_IFACE names one without an address";
    EXPECT_EQ(kept({"tcp"}, {{}, ""}), Names{"tcp"}) << "the kernel does not tell";
}

TEST(Usable, OthersAreKeptAsTheFilterHasThem) {
    const Network network{{loopback, {"eth0", false, false, ipv4}}, "eth0"};
    EXPECT_EQ(kept({"eth0", "lo", "x"}, network, "", "verbs"), (Names{"eth0", "lo", "x"}));
    EXPECT_EQ(kept({"eth0", "lo", "x"}, network, "^x", "verbs"), (Names{"eth0", "lo"}));
}

}  // namespace usable_test
}  // namespace railyard::fabric
