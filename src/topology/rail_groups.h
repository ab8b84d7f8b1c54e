// Which rails one thread is to serve, and on which CPUs.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "topology/machine.h"
#include "topology/rail_selection.h"

namespace railyard::topology {

struct RailGroup {
    std::vector<std::size_t> rails;  ///< indices, ascending
    std::vector<int> nodes;          ///< NUMA nodes of their NICs, ascending; empty: nobody knows
    std::vector<int> cpus;           ///< of these nodes, ascending
};

/// Shares rails out among threads: the rails of one NUMA node together. `threads`: of how many there are at
/// most, at least 1; nodes are merged where they are more, and their rails split where they are fewer. 0: one
/// for each node that has rails. Rails whose node nobody knows go where there are fewest. At least one group,
/// and none without a rail where there are any.
[[nodiscard]] std::vector<RailGroup> group_rails(const Machine& machine, std::span<const RailDesc> rails,
                                                 std::size_t threads);

}  // namespace railyard::topology
