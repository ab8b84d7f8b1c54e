// Which rails carry which memory: the topology's answer for the rails of one engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/params.h"
#include "fabric/info.h"
#include "manager/registration.h"
#include "topology/rail_groups.h"
#include "topology/rail_selection.h"

namespace railyard {

/// As its provider says, or the kernel where verbs does not (before libfabric 2.3.1). Nothing for a NIC that
/// is not on a PCI bus.
[[nodiscard]] std::optional<topology::PciAddress> address_of(const fabric::Device& device);

/// As the topology knows them.
[[nodiscard]] std::vector<topology::RailDesc> described(std::span<const fabric::Device* const> devices);

/// Read with hwloc only where one of the devices has a place on the PCI bus, or `topology_file` is set; else
/// nothing. A machine that cannot be read is said in the log, and nothing is known of it then. Throws
/// Error{invalid_param} for a topology file that cannot be read.
[[nodiscard]] topology::Machine machine_of(const Params& params, std::span<const topology::RailDesc> devices);

/// Any thread.
class RailPlacement {
  public:
    /// `devices`: of the rails, by rail index. Rails before `first` carry no memory. `machine`: what
    /// machine_of has read already; nothing: it is asked here, and throws as it does. Every rail carries
    /// everything where nothing is known of the machine. `offset`: at which turn each node's first range has
    /// its rails; nothing: at one by which the processes of a host differ.
    RailPlacement(const Params& params, std::span<const fabric::Device* const> devices, std::size_t first = 0,
                  std::optional<topology::Machine> machine = {}, std::optional<std::uint32_t> offset = {});

    /// Rails for host memory, by the NUMA nodes of its pages, and by its turn among the ranges there: the
    /// next one's, which is left in `turn`, or what that has from before (ADR 44). Never empty.
    [[nodiscard]] RailSet for_host_memory(std::uint64_t address, std::uint64_t length,
                                          std::optional<std::uint32_t>& turn) const;
    /// Rails for memory of the GPU at this PCI address ("0000:53:00.0"), reaching it or not: those near it.
    /// All of them, with a line in the log, where the topology does not know the GPU. Never empty. Throws
    /// Error{invalid_param} for what is no PCI address.
    [[nodiscard]] RailSet for_gpu(const std::string& pci) const;
    /// Those among them whose NIC hangs on a PCIe switch, or a port of the root complex, that the GPU hangs
    /// on, too, and not on a host bridge alone: what one of the two writes to the other need not pass the
    /// CPU. Throws as for_gpu.
    [[nodiscard]] RailSet below_switch_of_gpu(const std::string& pci) const;
    /// Its NUMA node, for topology::NodeBinding; topology::unknown_numa where nobody knows. Throws as
    /// for_gpu.
    [[nodiscard]] int node_of_gpu(const std::string& pci) const;
    /// Every rail shared out among threads (topology::group_rails).
    [[nodiscard]] std::vector<topology::RailGroup> groups(std::size_t threads) const;

  private:
    [[nodiscard]] RailSet to_rail_set(const std::vector<std::size_t>& indices) const;
    [[nodiscard]] std::uint32_t next_turn(std::span<const int> nodes) const;

    const std::size_t first_;
    const std::vector<topology::RailDesc> rails_;
    topology::Machine machine_;  ///< nothing where no rail has a place
    topology::RailMap map_;
    bool same_everywhere_ = true;  ///< no need to look where memory lies
    /// By node; those of memory on several are the first one's. Nothing else depends on them.
    mutable std::vector<std::atomic<std::uint32_t>> turns_;
};

}  // namespace railyard
