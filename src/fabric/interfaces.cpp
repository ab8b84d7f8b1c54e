#include "fabric/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <climits>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

namespace railyard::fabric {

std::vector<NetworkInterface> network_interfaces() {
    std::vector<NetworkInterface> result;
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return result;
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
    for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
        auto same = [&](const NetworkInterface& known) { return known.name == entry->ifa_name; };
        if (std::any_of(result.begin(), result.end(), same)) continue;
        const unsigned up = IFF_UP | IFF_RUNNING;
        result.push_back(
            {entry->ifa_name, (entry->ifa_flags & up) == up, (entry->ifa_flags & IFF_LOOPBACK) != 0});
    }
    return result;
}

std::string default_route_interface(std::string_view route_table) {
    std::istringstream lines{std::string(route_table)};
    std::string line, best;
    long best_metric = LONG_MAX;
    std::getline(lines, line);  // the heading
    while (std::getline(lines, line)) {
        std::istringstream fields(line);
        std::string name, destination, gateway;
        unsigned flags = 0;
        long refs = 0, use = 0, metric = 0;
        fields >> name >> destination >> gateway >> std::hex >> flags >> std::dec >> refs >> use >> metric;
        if (fields && destination == "00000000" && metric < best_metric) {
            best = name;
            best_metric = metric;
        }
    }
    return best;
}

std::string default_route_interface() {
    std::ifstream file("/proc/net/route");
    return default_route_interface(std::string(std::istreambuf_iterator<char>(file), {}));
}

bool is_container_bridge(std::string_view name) noexcept {
    for (std::string_view prefix :
         {"docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "podman", "lxc"}) {
        if (name.substr(0, prefix.size()) == prefix) return true;
    }
    return false;
}

std::string choose_interface(const std::vector<NetworkInterface>& interfaces, std::string_view routed) {
    auto pick = [&](auto&& wanted) -> std::string {
        auto found = std::find_if(interfaces.begin(), interfaces.end(), wanted);
        return found == interfaces.end() ? std::string() : found->name;
    };
    std::string name = pick([&](const NetworkInterface& i) { return i.up && i.name == routed; });
    if (name.empty()) {
        name = pick(
            [](const NetworkInterface& i) { return i.up && !i.loopback && !is_container_bridge(i.name); });
    }
    if (name.empty()) name = pick([](const NetworkInterface& i) { return i.up && i.loopback; });
    return name;
}

}  // namespace railyard::fabric
