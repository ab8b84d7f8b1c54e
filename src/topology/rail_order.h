// On which devices rails are opened, where there are to be fewer than there could be. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "topology/machine.h"
#include "topology/rail_selection.h"

namespace railyard::topology {

/// How many rails so many devices get.
struct RailLimits {
    std::uint64_t rails = 0;    ///< at most; 0: no limit
    std::uint64_t on_each = 1;  ///< on each device
    bool as_named = false;      ///< the order of the devices is the user's

    [[nodiscard]] std::size_t possible(std::size_t devices) const noexcept { return devices * on_each; }
    [[nodiscard]] std::size_t most(std::size_t devices) const noexcept {
        return rails ? std::min<std::size_t>(rails, possible(devices)) : possible(devices);
    }
    /// Devices that get a rail more than others do.
    [[nodiscard]] std::size_t preferred(std::size_t devices) const noexcept {
        return devices ? most(devices) % devices : 0;
    }
    /// It is the topology's to say which those are.
    [[nodiscard]] bool leave_a_choice(std::size_t devices) const noexcept {
        return !as_named && preferred(devices) != 0;
    }
};

/// The device (its index) of each rail that is possible, round by round over the devices: rails are opened in
/// this order until there are as many as there may be, and who does not open is passed over. Within a round
/// those that are preferred come first, in the order in which they are given, and then the others in the
/// order in which they would stand in. Preferred are, where a part of the machine's GPUs is `visible`
/// (visible_gpus), the NICs of those, then the others of their NUMA nodes; among equals one of each node in
/// turn, of a node one of each host bridge, and of a bridge one of each GPU; last those that the topology
/// does not know.
[[nodiscard]] std::vector<std::size_t> rail_order(const Machine& machine, std::span<const RailDesc> devices,
                                                  const RailLimits& limits,
                                                  std::span<const GpuDesc> visible = {});

}  // namespace railyard::topology
