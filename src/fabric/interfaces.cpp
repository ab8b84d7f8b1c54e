#include "fabric/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <tuple>

#include "common/file_text.h"

namespace railyard::fabric {
namespace {

/// Of the routes that are told of, the one with the lowest metric.
class Best {
  public:
    void consider(const std::string& name, unsigned long metric) {
        if (!name_.empty() && metric >= metric_) return;
        name_ = name;
        metric_ = metric;
    }
    [[nodiscard]] const std::string& name() const { return name_; }

  private:
    std::string name_;
    unsigned long metric_ = 0;
};

}  // namespace

AddressKind address_kind(int family, const void* address) noexcept {
    constexpr in_addr_t link_local = 0xa9fe0000, network = 0xffff0000;  // 169.254.0.0/16
    if (!address) return AddressKind::none;
    if (family == AF_INET) {
        const in_addr_t bits = ntohl(static_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
        return (bits & network) == link_local ? AddressKind::link_local_ipv4 : AddressKind::ipv4;
    }
    if (family != AF_INET6) return AddressKind::none;
    return IN6_IS_ADDR_LINKLOCAL(&static_cast<const sockaddr_in6*>(address)->sin6_addr)
               ? AddressKind::link_local_ipv6
               : AddressKind::ipv6;
}

std::vector<NetworkInterface> network_interfaces() {
    std::vector<NetworkInterface> result;
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return result;
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
    for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
        auto known = std::find_if(result.begin(), result.end(),
                                  [&](const NetworkInterface& one) { return one.name == entry->ifa_name; });
        if (known == result.end()) {
            const unsigned up = IFF_UP | IFF_RUNNING;
            known = result.insert(known, NetworkInterface{entry->ifa_name, (entry->ifa_flags & up) == up,
                                                          (entry->ifa_flags & IFF_LOOPBACK) != 0});
        }
        if (entry->ifa_addr)
            known->address =
                std::min(known->address, address_kind(entry->ifa_addr->sa_family, entry->ifa_addr));
    }
    return result;
}

std::string ipv4_default_route(std::string_view table) {
    std::istringstream lines{std::string(table)};
    std::string line;
    Best best;
    std::getline(lines, line);  // the heading
    while (std::getline(lines, line)) {
        std::istringstream fields(line);
        std::string name, destination, gateway;
        unsigned flags = 0;
        unsigned long refs = 0, use = 0, metric = 0;
        fields >> name >> destination >> gateway >> std::hex >> flags >> std::dec >> refs >> use >> metric;
        if (fields && destination == "00000000" && !(flags & RTF_REJECT)) best.consider(name, metric);
    }
    return best.name();
}

std::string ipv6_default_route(std::string_view table) {
    std::istringstream lines{std::string(table)};
    Best best;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream fields(line);
        std::string destination, source, gateway, name;
        unsigned long length = 0, source_length = 0, metric = 0, refs = 0, use = 0, flags = 0;
        fields >> std::hex >> destination >> length >> source >> source_length >> gateway >> metric >> refs >>
            use >> flags >> name;
        // A kernel without a default route lists one that refuses everything, over the loopback.
        if (fields && length == 0 && source_length == 0 && !(flags & RTF_REJECT)) best.consider(name, metric);
    }
    return best.name();
}

std::string default_route_interface(const std::string& root) {
    const std::string name = ipv4_default_route(file_text(root + "/proc/net/route"));
    return name.empty() ? ipv6_default_route(file_text(root + "/proc/net/ipv6_route")) : name;
}

bool is_container_bridge(std::string_view name) noexcept {
    for (std::string_view prefix :
         {"docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "podman", "lxc"}) {
        if (name.substr(0, prefix.size()) == prefix) return true;
    }
    return false;
}

bool leads_out(const NetworkInterface& interface) noexcept {
    return interface.up && interface.address != AddressKind::none && !interface.loopback &&
           !is_container_bridge(interface.name);
}

std::string choose_interface(const std::vector<NetworkInterface>& offered, std::string_view routed) {
    enum Use { goes_far, goes_near, stays_here, is_bridge };
    const auto use_of = [&](const NetworkInterface& one) {
        if (one.name != routed && one.loopback) return stays_here;
        if (one.name != routed && is_container_bridge(one.name)) return is_bridge;
        return one.address <= AddressKind::ipv6 ? goes_far : goes_near;
    };
    const auto order = [&](const NetworkInterface& one) {
        return std::tuple(!one.up, use_of(one), one.name != routed, one.address);
    };
    const auto best = std::min_element(
        offered.begin(), offered.end(),
        [&](const NetworkInterface& a, const NetworkInterface& b) { return order(a) < order(b); });
    return best == offered.end() || !best->up ? std::string() : best->name;
}

}  // namespace railyard::fabric
