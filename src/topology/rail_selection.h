// Which rails carry the memory of which GPU and of which NUMA node. Pure: values in, values out.
// docs/topology.md has the rules with the instance types that they were made for.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "topology/machine.h"

namespace railyard::topology {

/// A rail as the manager knows it. Several rails of one device have the same address and stay together.
struct RailDesc {
    std::string name;
    std::optional<PciAddress> pci;  ///< nothing for tcp, shm and whatever has no NIC of its own
    double gbps = 0;                ///< 0: the topology's figure for the NIC
};

/// What ranges of host memory are given in turn: lists of rails, which have one in common where their number
/// does not divide that of the rails.
using RailWindows = std::vector<std::vector<std::size_t>>;

struct SelectionRules {
    double max_host_gbps = 0;  ///< most that one range of host memory is given rails for; 0: by link capacity
};

/// Indices of rails, each list in ascending order. No list is empty where there is a rail at all. Rails
/// without an address, or with one that the topology does not know, are in every list.
struct RailMap {
    std::vector<std::vector<std::size_t>> by_gpu;  ///< by the index in Machine::gpus (GpuDesc::ordinal)
    std::vector<RailWindows> by_numa;  ///< by the operating system's number; empty for a missing node
    std::vector<std::size_t> all;
    std::vector<std::string> notes;         ///< what a user should hear once, at start
    std::vector<std::string> gpu_reasons;   ///< why, one for each of by_gpu
    std::vector<std::string> numa_reasons;  ///< why, one for each of by_numa
};

[[nodiscard]] RailMap select_rails(const Machine& machine, std::span<const RailDesc> rails,
                                   const SelectionRules& rules = {});

/// The GPUs that a driver shows, in its order, by their PCI ids as it prints them: what CUDA_VISIBLE_DEVICES
/// left over. A GPU that the topology does not know has ordinal -1. Which rails belong to a GPU does not
/// depend on the others' being visible, because other processes use those. Throws Error{invalid_param} for a
/// text that is no PCI address.
[[nodiscard]] std::vector<GpuDesc> visible_gpus(const Machine& machine, std::span<const std::string> pci_ids);

/// Rails for memory of a GPU of visible_gpus; all rails for one that the topology does not know.
[[nodiscard]] const std::vector<std::size_t>& rails_of_gpu(const RailMap& map, const GpuDesc& gpu) noexcept;

/// Rails for the range whose turn is `turn` of host memory that lies on these NUMA nodes (of memory_nodes):
/// the window whose turn it is of each node; for an empty list, or an unknown node in it, of all nodes.
[[nodiscard]] std::vector<std::size_t> rails_of_nodes(const RailMap& map, std::span<const int> nodes,
                                                      std::size_t turn);

/// All rails of a node's windows, ascending.
[[nodiscard]] std::vector<std::size_t> rails_in(const RailWindows& windows);

}  // namespace railyard::topology
