#include "fabric/choices.h"

#include <rdma/fi_domain.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/log.h"
#include "common/status.h"
#include "fabric/interfaces.h"

namespace railyard::fabric {
namespace {

/// Best first. tcp: the provider's own reliable-datagram endpoint ("net" in libfabric 1.17, "tcp" from 1.18
/// on) before the layered one. sockets is never taken: a thousand times slower.
constexpr Choice all_choices[] = {
    {"efa-direct", "efa", "efa-direct"},
    {"efa", "efa", "efa"},
    {"cxi", "cxi", ""},
    {"verbs", "verbs;ofi_rxm", ""},
    {"tcp", "net", ""},
    {"tcp", "tcp", ""},
    {"tcp", "tcp;ofi_rxm", ""},
    {"shm", "shm", ""},
    // Only for who asks for them: a connection a peer.
    {"verbs-msg", "verbs", "", FI_EP_MSG},
    {"tcp-msg", "tcp", "", FI_EP_MSG},
};

/// What a libfabric name that is no choice of ours belongs to: by its core provider, "verbs" of
/// "verbs;ofi_rxd".
std::string_view family_of(std::string_view provider) {
    const std::string_view core = provider.substr(0, provider.find(';'));
    for (const Choice& choice : all_choices) {
        if (core == choice.provider.substr(0, choice.provider.find(';'))) return choice.family;
    }
    return provider;
}

/// Several addresses of one interface: IPv4 before global IPv6 before the rest. InfiniBand's own is last, as
/// not every library opens it.
int address_rank(const fi_info& info) {
    if (info.addr_format == FI_SOCKADDR_IB) return static_cast<int>(AddressKind::none);
    const int family = info.addr_format == FI_SOCKADDR_IN6 ? AF_INET6 : AF_INET;
    const bool is_ip = info.addr_format == FI_SOCKADDR_IN || info.addr_format == FI_SOCKADDR_IN6;
    return is_ip && info.src_addr ? static_cast<int>(address_kind(family, info.src_addr)) : 0;
}

/// Several offers of one device: the lowest is taken. What keys of cxi's own give away: docs/gotchas.md.
int rank(const fi_info& info, const Choice& choice) {
    const bool gives_away = choice.provider == "cxi" && (info.domain_attr->mr_mode & FI_MR_PROV_KEY);
    return address_rank(info) + (gives_away ? 1 : 0);
}

bool matches(const fi_info& info, const Choice& choice) {
    return choice.provider == info.fabric_attr->prov_name &&
           (choice.fabric.empty() || choice.fabric == info.fabric_attr->name);
}

NicPlace nic_place(const fi_info& info) {
    NicPlace place;
    if (!info.nic) return place;
    if (info.nic->link_attr) place.gbps = static_cast<double>(info.nic->link_attr->speed) / 1e9;
    if (info.nic->bus_attr && info.nic->bus_attr->bus_type == FI_BUS_PCI) {
        const fi_pci_attr& pci = info.nic->bus_attr->attr.pci;
        place.on_pci_bus = true;
        place.domain = pci.domain_id;
        place.bus = pci.bus_id;
        place.device = pci.device_id;
        place.function = pci.function_id;
    }
    return place;
}

}  // namespace

std::string device_name(const fi_info& info) {
    if (info.nic && info.nic->device_attr && info.nic->device_attr->name) return info.nic->device_attr->name;
    return info.domain_attr->name ? info.domain_attr->name : "";
}

bool is_tcp(std::string_view family) noexcept {
    return family == "tcp" || family == "tcp-msg";
}

bool is_efa(std::string_view family) noexcept {
    return family == "efa-direct" || family == "efa";
}

bool may_reach_gpus(std::string_view family) noexcept {
    return is_efa(family) || family == "verbs";
}

std::vector<Choice> choices_for(std::string_view provider, std::string_view after) {
    std::vector<Choice> choices;
    for (const Choice& choice : all_choices) {
        const bool unasked = provider == "auto" && choice.kind == FI_EP_RDM;
        if (unasked || provider == choice.family) choices.push_back(choice);
    }
    if (provider != "auto") choices.push_back({family_of(provider), provider, ""});
    const auto last = std::find_if(choices.rbegin(), choices.rend(),
                                   [&](const Choice& choice) { return choice.family == after; });
    choices.erase(choices.begin(), last.base());
    return choices;
}

std::vector<Device> devices_of(const fi_info* list, const Choice& choice) {
    std::vector<Device> devices;
    for (const fi_info* info = list; info; info = info->next) {
        if (!matches(*info, choice)) continue;
        const std::string name = device_name(*info);
        auto same =
            std::find_if(devices.begin(), devices.end(), [&](const Device& d) { return d.name == name; });
        if (same != devices.end() && rank(*same->info, choice) <= rank(*info, choice)) continue;
        std::string provider = info->fabric_attr->prov_name;
        if (choice.kind == FI_EP_MSG) provider += connected_suffix;
        Device device{InfoPtr(fi_dupinfo(info)), std::move(provider), std::string(choice.family), name,
                      provider_caps(*info),      nic_place(*info)};
        if (!device.info) throw Error(Status::backend, "fi_dupinfo failed: out of memory");
        // tcp of libfabric 2 crashes in fi_cq_open with a wait object under FI_THREAD_COMPLETION. Memory that
        // is bound to an endpoint is so without its role, and cxi has no lock of its own then.
        if ((is_tcp(choice.family) && FI_MAJOR(fi_version()) >= 2) || device.caps.endpoint_registration)
            device.info->domain_attr->threading = FI_THREAD_SAFE;
        if (same != devices.end()) {
            *same = std::move(device);
        } else {
            devices.push_back(std::move(device));
        }
    }
    return devices;
}

void leave_out_unopenable(std::vector<Device>& devices, std::uint32_t library) {
    // libfabric issue #11131: ofi_rxm is said to take IP addresses alone, and its fi_endpoint answers
    // ENODATA.
    if (library >= FI_VERSION(2, 3)) return;
    std::erase_if(devices, [](const Device& device) {
        if (device.provider != "verbs;ofi_rxm" || device.info->addr_format != FI_SOCKADDR_IB) return false;
        RAILYARD_LOG(
            warn, device.name.c_str(),
            "has an InfiniBand address alone, which verbs;ofi_rxm of libfabric before 2.3 cannot open: "
            "skipped; give its network interface an IP address");
        return true;
    });
}

std::vector<std::string_view> families() {
    std::vector<std::string_view> names;
    for (const Choice& choice : all_choices) {
        if (names.empty() || names.back() != choice.family) names.push_back(choice.family);
    }
    return names;
}

}  // namespace railyard::fabric
