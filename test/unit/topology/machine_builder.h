// Machines that tests put together, with a rail on each NIC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "topology/rail_selection.h"
#include "unit/topology/topologies.h"

namespace railyard::topology {

/// Puts machines together: `bridge` opens a host bridge on a node, `port` a switch below the last host
/// bridge.
class MachineBuilder {
  public:
    explicit MachineBuilder(int nodes) {
        machine.tree.push_back({});
        for (int node = 0; node < nodes; ++node) {
            machine.numa.push_back({node, 1 << 30, {}});
            machine.tree.push_back({NodeKind::package, 0, node, node, {}});
        }
    }
    std::size_t bridge(int node, std::uint8_t bus, std::uint32_t domain = 0) {
        const std::size_t parent = node < 0 ? 0 : static_cast<std::size_t>(node) + 1;
        return put({NodeKind::host_bridge, parent, 0, node, {domain, bus, 0, 0}});
    }
    std::size_t port(std::size_t parent, std::uint8_t bus) {
        const TreeNode& above = machine.tree[parent];
        return put({NodeKind::pci_bridge, parent, 0, above.numa, {above.pci.domain, bus, 0, 0}});
    }
    void nic(std::size_t parent, std::uint8_t bus, double gbps = 100) {
        const PciAddress pci{machine.tree[parent].pci.domain, bus, 0, 0};
        machine.nics.push_back(
            {"nic" + std::to_string(bus), pci, gbps, machine.tree[parent].numa, true, parent});
        rails.push_back({machine.nics.back().name, pci, 0});
    }
    void gpu(std::size_t parent, std::uint8_t bus) {
        const PciAddress pci{machine.tree[parent].pci.domain, bus, 0, 0};
        machine.gpus.push_back(
            {static_cast<int>(machine.gpus.size()), pci, machine.tree[parent].numa, 0, parent});
    }
    [[nodiscard]] RailMap select() const { return select_rails(machine, rails); }
    [[nodiscard]] std::string table() const { return gpu_table(machine, rails, select()); }

    Machine machine;
    std::vector<RailDesc> rails;

  private:
    std::size_t put(const TreeNode& node) {
        machine.tree.push_back(node);
        return machine.tree.size() - 1;
    }
};

}  // namespace railyard::topology
