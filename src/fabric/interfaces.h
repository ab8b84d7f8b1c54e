// Which network interfaces a tcp rail may use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace railyard::fabric {

struct NetworkInterface {
    std::string name;
    bool up = false;  ///< administratively up and with carrier
    bool loopback = false;
};

[[nodiscard]] std::vector<NetworkInterface> network_interfaces();
/// Interface of the IPv4 default route with the lowest metric, from the text of /proc/net/route; "" for none.
[[nodiscard]] std::string default_route_interface(std::string_view route_table);
[[nodiscard]] std::string default_route_interface();
/// docker, container and virtual machine bridges, which lead nowhere useful.
[[nodiscard]] bool is_container_bridge(std::string_view name) noexcept;

/// The interface that tcp rails use when the user names none: the routed one, else the first that is up and
/// no bridge, else the loopback; "" when nothing is up.
[[nodiscard]] std::string choose_interface(const std::vector<NetworkInterface>& interfaces,
                                           std::string_view routed);

}  // namespace railyard::fabric
