#include "fabric/interfaces.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace railyard::fabric {
namespace interfaces_test {

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
    EXPECT_EQ(choose_interface({{"docker0", true, false}}, ""), "docker0") << "nothing else is offered";
    EXPECT_EQ(choose_interface({}, "eth0"), "");
}

NetworkInterface with(const char* name, AddressKind address) {
    return {name, true, false, address};
}

TEST(Interfaces, WithoutARouteTheBestKindOfAddressCounts) {
    constexpr AddressKind kinds[] = {AddressKind::ipv4, AddressKind::ipv6, AddressKind::link_local_ipv4,
                                     AddressKind::link_local_ipv6, AddressKind::none};
    for (std::size_t better = 0; better < std::size(kinds); ++better)
        for (std::size_t worse = better + 1; worse < std::size(kinds); ++worse)
            EXPECT_EQ(choose_interface({with("eno1", kinds[worse]), with("bond0", kinds[better])}, ""),
                      "bond0")
                << better << " before " << worse;
    EXPECT_EQ(choose_interface({with("eno1", AddressKind::ipv4), with("bond0", AddressKind::ipv4)}, ""),
              "eno1");
    EXPECT_EQ(choose_interface(
                  {{"lo", true, true, AddressKind::ipv4}, with("eno1", AddressKind::link_local_ipv6)}, ""),
              "eno1")
        << "the loopback's is no better";
}

TEST(Interfaces, ARouteCountsMoreThanTheKindOfAddressUnlessThatIsLinkLocal) {
    const auto chosen = [](AddressKind routed) {
        return choose_interface({with("bond0", AddressKind::ipv4), with("eno1", routed)}, "eno1");
    };
    EXPECT_EQ(chosen(AddressKind::ipv6), "eno1");
    EXPECT_EQ(chosen(AddressKind::link_local_ipv4), "bond0");
    EXPECT_EQ(chosen(AddressKind::link_local_ipv6), "bond0");
}

TEST(Interfaces, KindsOfAddresses) {
    const auto kind_of = [](int family, const char* text) {
        sockaddr_storage address{};
        if (family == AF_INET) {
            EXPECT_EQ(inet_pton(family, text, &reinterpret_cast<sockaddr_in&>(address).sin_addr), 1) << text;
        } else {
            EXPECT_EQ(inet_pton(family, text, &reinterpret_cast<sockaddr_in6&>(address).sin6_addr), 1)
                << text;
        }
        return address_kind(family, &address);
    };
    for (const char* text : {"10.9.0.1", "169.253.255.255", "169.255.0.1", "127.0.0.1"})
        EXPECT_EQ(kind_of(AF_INET, text), AddressKind::ipv4) << text;
    EXPECT_EQ(kind_of(AF_INET, "169.254.3.1"), AddressKind::link_local_ipv4);
    for (const char* text : {"2001:db8::1", "fd00::2", "fec0::1"})
        EXPECT_EQ(kind_of(AF_INET6, text), AddressKind::ipv6) << text;
    EXPECT_EQ(kind_of(AF_INET6, "fe80::1"), AddressKind::link_local_ipv6);
    EXPECT_EQ(address_kind(AF_UNIX, "path"), AddressKind::none);
    EXPECT_EQ(address_kind(AF_INET, nullptr), AddressKind::none);
}

TEST(Interfaces, ThoseThatPeersMayBeBehind) {
    EXPECT_TRUE(leads_out(with("eth0", AddressKind::link_local_ipv6)));
    EXPECT_FALSE(leads_out(with("eth0", AddressKind::none)));
    EXPECT_FALSE(leads_out(with("docker0", AddressKind::ipv4)));
    EXPECT_FALSE(leads_out({"lo", true, true, AddressKind::ipv4}));
    EXPECT_FALSE(leads_out({"eth0", false, false, AddressKind::ipv4}));
}

TEST(Interfaces, TheDefaultRouteWithTheLowestMetricCounts) {
    const char* table =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
        "wlan0\t00000000\t0102A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n"
        "eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
        "eth5\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
    EXPECT_EQ(ipv4_default_route(table), "eth0");
    EXPECT_EQ(ipv4_default_route("Iface\n"), "");
    EXPECT_EQ(ipv4_default_route(""), "");
    EXPECT_EQ(ipv4_default_route("Iface\n*\t00000000\t00000000\t0200\t0\t0\t0\t00000000\t0\t0\t0\n"), "")
        << "unreachable";
}

/// As the kernel writes it: destination, length, source, length, gateway, metric, two counts, flags, name.
std::string ipv6_line(const std::string& destination, const char* length, const char* metric,
                      const char* flags, const char* name) {
    const std::string nothing(32, '0');
    return destination + " " + length + " " + nothing + " 00 fe800000000000000000000000000001 " + metric +
           " 00000003 00000000 " + flags + " " + std::string(8 - std::string(name).size(), ' ') + name + "\n";
}

const std::string ipv6_any(32, '0'), refused_everything = ipv6_line(ipv6_any, "00", "ffffffff", "00200200",
                                                                    "lo");

TEST(Interfaces, TheDefaultRouteOfIpv6) {
    const std::string others =
        ipv6_line("fd000000000000000000000000000000", "40", "00000100", "00000001", "eth9") +
        ipv6_line(ipv6_any, "01", "00000001", "00000003", "tun0");
    EXPECT_EQ(ipv6_default_route(others + refused_everything), "");
    EXPECT_EQ(ipv6_default_route(""), "");
    EXPECT_EQ(
        ipv6_default_route(others + ipv6_line(ipv6_any, "00", "00000400", "00000003", "eth1") +
                           ipv6_line(ipv6_any, "00", "00000064", "00450003", "bond0") + refused_everything),
        "bond0")
        << "metrics are hexadecimal: 1024 and 100";
    EXPECT_EQ(ipv6_default_route(ipv6_line(ipv6_any, "00", "00000010", "00000003", "eth0") +
                                 ipv6_line(ipv6_any, "00", "00000009", "00000003", "eth1")),
              "eth1");
}

TEST(Interfaces, TheDefaultRouteOfIpv6CountsWhereThereIsNoneOfIpv4) {
    namespace fs = std::filesystem;
    const fs::path root = fs::temp_directory_path() / ("railyard-routes-" + std::to_string(getpid()));
    fs::create_directories(root / "proc/net");
    std::ofstream(root / "proc/net/ipv6_route") << ipv6_line(ipv6_any, "00", "00000400", "00000003", "bond0");
    EXPECT_EQ(default_route_interface(root), "bond0");
    std::ofstream(root / "proc/net/route") << "Iface\neth0\t00000000\t0101A8C0\t0003\t0\t0\t100\n";
    EXPECT_EQ(default_route_interface(root), "eth0");
    fs::remove_all(root);
    EXPECT_EQ(default_route_interface(root), "");
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
    const auto counted = [&](const NetworkInterface& one) {
        return std::count_if(all.begin(), all.end(),
                             [&](const NetworkInterface& i) { return i.name == one.name; });
    };
    for (const NetworkInterface& one : all) {
        EXPECT_EQ(counted(one), 1) << one.name << ", whatever number of addresses it has";
        EXPECT_TRUE(!one.loopback || one.address <= AddressKind::ipv6) << one.name;
    }
}

}  // namespace interfaces_test
}  // namespace railyard::fabric
