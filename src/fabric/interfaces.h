// Which network interfaces a tcp rail may use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace railyard::fabric {

/// The best first. Link-local ones lead to neighbours alone, or to the machine's own management controller.
enum class AddressKind : std::uint8_t { ipv4, ipv6, link_local_ipv4, link_local_ipv6, none };
/// Of a sockaddr of AF_INET or AF_INET6; `none` for other families and for null.
[[nodiscard]] AddressKind address_kind(int family, const void* address) noexcept;

struct NetworkInterface {
    std::string name;
    bool up = false;  ///< administratively up and with carrier
    bool loopback = false;
    AddressKind address = AddressKind::none;  ///< the best that it has
};

[[nodiscard]] std::vector<NetworkInterface> network_interfaces();

/// Interface of the IPv4 default route with the lowest metric, from the text of /proc/net/route; "" for none.
[[nodiscard]] std::string ipv4_default_route(std::string_view table);
/// The same of IPv6, from the text of /proc/net/ipv6_route.
[[nodiscard]] std::string ipv6_default_route(std::string_view table);
/// That of IPv4, else that of IPv6; both files are read below `root` ("" for this machine).
[[nodiscard]] std::string default_route_interface(const std::string& root = {});

/// docker, container and virtual machine bridges, which lead nowhere useful.
[[nodiscard]] bool is_container_bridge(std::string_view name) noexcept;
/// Up, with an address, and neither the loopback nor a bridge for containers: peers may be behind it.
[[nodiscard]] bool leads_out(const NetworkInterface& interface) noexcept;

/// The interface that tcp rails use when the user names none, of those that libfabric offers: the routed one,
/// else the first of those with the best kind of address, else the loopback, else a bridge. One with a
/// link-local address alone comes behind all others that lead somewhere, routed or not. "" when nothing is
/// up.
[[nodiscard]] std::string choose_interface(const std::vector<NetworkInterface>& offered,
                                           std::string_view routed);

}  // namespace railyard::fabric
