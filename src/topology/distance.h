// How near two devices of a machine are. Pure.
#pragma once

#include <vector>

#include "topology/machine.h"

namespace railyard::topology {

enum class Closeness : std::uint8_t { pci_switch, host_bridge, numa_node, far };

/// "same PCIe switch", "same host bridge", ...
[[nodiscard]] const char* to_string(Closeness closeness) noexcept;

/// Deepest node of the tree above both `a` and `b` (indices of nodes that devices hang on); no_parent where
/// they have nothing in common.
[[nodiscard]] std::size_t common_ancestor(const Machine& machine, std::size_t a, std::size_t b) noexcept;

/// `ancestor` is `node` or above it.
[[nodiscard]] bool is_above(const Machine& machine, std::size_t ancestor, std::size_t node) noexcept;

/// The host bridge above `node`, or no_parent.
[[nodiscard]] std::size_t host_bridge_of(const Machine& machine, std::size_t node) noexcept;

[[nodiscard]] Closeness closeness(const Machine& machine, const GpuDesc& gpu, const NicDesc& nic) noexcept;

/// NUMA nodes (their numbers), nearest first, `from` itself leading; equally near ones by number. By the
/// firmware's distances where it gives any. An unknown `from` yields all by number.
[[nodiscard]] std::vector<int> nearest_nodes(const Machine& machine, int from);

}  // namespace railyard::topology
