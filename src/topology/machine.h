// A machine as plain values: the PCI tree, NICs, GPUs and NUMA nodes. Whoever fills it in, hwloc or a test,
// the rest of the layer computes on this alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topology/pci_address.h"

namespace railyard::topology {

constexpr int unknown_numa = -1;
constexpr std::size_t no_parent = static_cast<std::size_t>(-1);

enum class NodeKind : std::uint8_t { machine, package, host_bridge, pci_bridge };

/// Something that devices hang on. A parent comes before its children.
struct TreeNode {
    NodeKind kind = NodeKind::machine;
    std::size_t parent = no_parent;  ///< index into Machine::tree
    int number = 0;                  ///< the operating system's, of a package
    int numa = unknown_numa;         ///< where the CPUs of exactly one node are the nearest
    PciAddress pci;                  ///< of a pci_bridge; of a host_bridge its domain and first bus
};

struct NicDesc {
    std::string name;  ///< as the RDMA stack calls it, else the network interface, else empty
    PciAddress pci;
    double gbps = 0;  ///< 0: unknown
    int numa = unknown_numa;
    bool efa = false;
    std::size_t parent = no_parent;  ///< index into Machine::tree
    std::uint16_t device_id = 0;     ///< PCI's; of an EFA its generation: 0xefa0, 0xefa1, ...
};

struct GpuDesc {
    int ordinal = -1;  ///< index into Machine::gpus; -1: a GPU that the topology does not know
    PciAddress pci;
    int numa = unknown_numa;
    double link_gbps = 0;  ///< what its PCIe link can feed, as a network rate; 0: unknown
    std::size_t parent = no_parent;
};

struct NumaNode {
    int node = 0;                         ///< the operating system's number
    std::uint64_t memory = 0;             ///< bytes
    std::vector<std::uint64_t> distance;  ///< to each of Machine::numa in its order; empty: nobody said
    std::vector<int> cpus{};              ///< the operating system's numbers, ascending
};

struct Machine {
    std::vector<TreeNode> tree;  ///< the machine itself first; may be empty
    std::vector<NicDesc> nics;   ///< in bus order
    std::vector<GpuDesc> gpus;   ///< in bus order
    std::vector<NumaNode> numa;  ///< by number
    bool this_machine = true;    ///< false: from an XML file
};

/// The NIC there; nullptr: the topology has none, or there is no address. Lives as long as the machine.
[[nodiscard]] const NicDesc* nic_at(const Machine& machine, const std::optional<PciAddress>& pci) noexcept;

/// Network rate (Gbit/s) that fits into a PCIe link of `link` GB/s: the fastest common one that is not above
/// it, because a NIC or its port is never rated at what the link happens to have left. 0 for an unknown link.
[[nodiscard]] double rate_of_link(double link) noexcept;

}  // namespace railyard::topology
