#include "fabric/usable.h"

#include <rdma/fabric.h>

#include <algorithm>

#include "common/log.h"
#include "fabric/choices.h"

namespace railyard::fabric {
namespace {

void leave_out_down(std::vector<Device>& devices, const std::vector<NetworkInterface>& interfaces) {
    std::erase_if(devices, [&](const Device& device) {
        const auto down = [&](const NetworkInterface& one) { return one.name == device.name && !one.up; };
        if (std::none_of(interfaces.begin(), interfaces.end(), down)) return false;
        RAILYARD_LOG(warn, device.name.c_str(), "interface is down: skipped");
        return true;
    });
}

/// The kernel may have interfaces that libfabric does not offer: without an address, or left out by
/// FI_TCP_IFACE.
void keep_one(std::vector<Device>& devices, const Network& network) {
    if (network.interfaces.empty()) return;
    std::vector<NetworkInterface> offered = network.interfaces;
    std::erase_if(offered, [&](const NetworkInterface& interface) {
        const auto same = [&](const Device& device) { return device.name == interface.name; };
        return std::none_of(devices.begin(), devices.end(), same);
    });
    const std::string only = choose_interface(offered, network.routed);
    std::erase_if(devices, [&](const Device& device) { return device.name != only; });
}

}  // namespace

void keep_usable(std::vector<Device>& devices, std::string_view family, const DeviceFilter& filter,
                 const Network& network) {
    std::erase_if(devices, [&](const Device& device) { return !filter.allows(device.name); });
    if (is_tcp(family)) {
        leave_out_down(devices, network.interfaces);
        if (filter.empty() || filter.exclude) keep_one(devices, network);
    }
    leave_out_unopenable(devices, fi_version());
}

}  // namespace railyard::fabric
