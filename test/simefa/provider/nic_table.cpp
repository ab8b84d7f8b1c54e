#include "provider/nic_table.h"

#include <hwloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <tuple>

#include "provider/environment.h"

namespace simefa {
namespace {

constexpr unsigned amazon = 0x1d0f;

struct TopologyDeleter {
    void operator()(hwloc_topology_t topology) const noexcept { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyDeleter>;

Topology load(const std::string& path) {
    hwloc_topology_t topology = nullptr;
    if (hwloc_topology_init(&topology) != 0) return nullptr;
    Topology owner(topology);
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_set_xml(topology, path.c_str()) != 0 || hwloc_topology_load(topology) != 0)
        return nullptr;
    return owner;
}

bool is_nic(hwloc_obj_t object) {
    const auto& pci = object->attr->pcidev;
    return pci.vendor_id == amazon && pci.device_id >= 0xefa0 && pci.device_id <= 0xefaf;
}

hwloc_obj_t network_device(hwloc_obj_t pci) {
    for (hwloc_obj_t child = pci->io_first_child; child; child = child->next_sibling) {
        if (child->type == HWLOC_OBJ_OS_DEVICE && child->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS &&
            child->name)
            return child;
    }
    return nullptr;
}

std::uint64_t link_gbps(hwloc_obj_t pci, hwloc_obj_t network) {
    for (hwloc_obj_t object : {network, pci}) {
        const char* said = object ? hwloc_obj_get_info_by_name(object, "LinkGbps") : nullptr;
        if (said && std::atof(said) > 0) return static_cast<std::uint64_t>(std::atof(said));
    }
    const double pci_gbps = pci->attr->pcidev.linkspeed * 8;
    for (const unsigned step : {400U, 200U, 100U}) {
        if (pci_gbps >= step) return step;
    }
    switch (pci->attr->pcidev.device_id) {
        case 0xefa2:
            return 200;
        case 0xefa3:
            return 400;
        default:
            return 100;
    }
}

std::uint64_t name_of_bridge(std::uint64_t domain, std::uint64_t bus, std::uint64_t device,
                             std::uint64_t function) {
    return std::uint64_t{1} << 63 | domain << 24 | bus << 16 | device << 8 | function;
}

std::uint64_t topmost_bridge(hwloc_obj_t pci) {
    std::uint64_t topmost = 0;
    for (hwloc_obj_t up = pci->parent; up && up->type == HWLOC_OBJ_BRIDGE; up = up->parent) {
        if (up->attr->bridge.upstream_type != HWLOC_OBJ_BRIDGE_PCI) continue;
        const auto& at = up->attr->bridge.upstream.pci;
        topmost = name_of_bridge(at.domain, at.bus, at.dev, at.func);
    }
    return topmost;
}

NicDescription describe(hwloc_obj_t pci) {
    const auto& at = pci->attr->pcidev;
    NicDescription nic;
    hwloc_obj_t network = network_device(pci);
    nic.name = network ? network->name : "rdmap" + std::to_string(at.bus) + "s" + std::to_string(at.dev);
    nic.pci_domain = static_cast<std::uint16_t>(at.domain);
    nic.bus = at.bus;
    nic.device = at.dev;
    nic.function = at.func;
    nic.device_id = at.device_id;
    nic.link_bits = link_gbps(pci, network) * 1'000'000'000;
    nic.rdma_read = nic.rdma_write = at.device_id >= 0xefa1;
    nic.bridge = topmost_bridge(pci);
    return nic;
}

}  // namespace

std::vector<NicDescription> read_nics(const std::string& xml_path) {
    std::vector<NicDescription> nics;
    if (xml_path.empty()) return nics;
    const Topology topology = load(xml_path);
    if (!topology) {
        std::fprintf(stderr, "simefa: hwloc cannot read %s\n", xml_path.c_str());
        return nics;
    }
    for (hwloc_obj_t pci = nullptr; (pci = hwloc_get_next_pcidev(topology.get(), pci));) {
        if (is_nic(pci)) nics.push_back(describe(pci));
    }
    if (nics.empty()) std::fprintf(stderr, "simefa: no EFA NIC (PCI 1d0f:efa*) in %s\n", xml_path.c_str());
    std::sort(nics.begin(), nics.end(), [](const NicDescription& a, const NicDescription& b) {
        return std::tie(a.pci_domain, a.bus, a.device, a.function) <
               std::tie(b.pci_domain, b.bus, b.device, b.function);
    });
    if (nics.size() > 1) {
        for (NicDescription& nic : nics)
            nic.rdma_read = true;
    }
    return nics;
}

const std::vector<NicDescription>& nic_table() {
    static const auto* const table = new std::vector<NicDescription>(read_nics(environment().xml));
    return *table;
}

}  // namespace simefa
