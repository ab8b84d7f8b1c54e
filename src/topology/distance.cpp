#include "topology/distance.h"

#include <algorithm>

namespace railyard::topology {

const char* to_string(Closeness closeness) noexcept {
    switch (closeness) {
        case Closeness::pci_switch:
            return "same PCIe switch";
        case Closeness::host_bridge:
            return "same host bridge";
        case Closeness::numa_node:
            return "same NUMA node";
        case Closeness::far:
            break;
    }
    return "far";
}

bool is_above(const Machine& machine, std::size_t ancestor, std::size_t node) noexcept {
    while (node != no_parent && node != ancestor)
        node = machine.tree[node].parent;
    return node != no_parent;
}

std::size_t common_ancestor(const Machine& machine, std::size_t a, std::size_t b) noexcept {
    while (a != no_parent && (b == no_parent || !is_above(machine, a, b)))
        a = machine.tree[a].parent;
    return a;
}

std::size_t host_bridge_of(const Machine& machine, std::size_t node) noexcept {
    while (node != no_parent && machine.tree[node].kind != NodeKind::host_bridge)
        node = machine.tree[node].parent;
    return node;
}

Closeness closeness(const Machine& machine, const GpuDesc& gpu, const NicDesc& nic) noexcept {
    const std::size_t ancestor = common_ancestor(machine, gpu.parent, nic.parent);
    if (ancestor != no_parent) {
        if (machine.tree[ancestor].kind == NodeKind::pci_bridge) return Closeness::pci_switch;
        if (machine.tree[ancestor].kind == NodeKind::host_bridge) return Closeness::host_bridge;
    }
    return gpu.numa != unknown_numa && gpu.numa == nic.numa ? Closeness::numa_node : Closeness::far;
}

std::vector<int> nearest_nodes(const Machine& machine, int from) {
    std::vector<int> nodes;
    for (const NumaNode& node : machine.numa)
        nodes.push_back(node.node);
    std::sort(nodes.begin(), nodes.end());
    const auto start = std::find_if(machine.numa.begin(), machine.numa.end(),
                                    [&](const NumaNode& node) { return node.node == from; });
    if (start == machine.numa.end()) return nodes;
    auto distance_to = [&](int number) -> std::uint64_t {
        if (number == from) return 0;
        for (std::size_t i = 0; i < machine.numa.size(); ++i) {
            if (machine.numa[i].node == number && i < start->distance.size()) return start->distance[i];
        }
        return UINT64_MAX;
    };
    std::stable_sort(nodes.begin(), nodes.end(),
                     [&](int a, int b) { return distance_to(a) < distance_to(b); });
    return nodes;
}

}  // namespace railyard::topology
