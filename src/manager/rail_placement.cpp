#include "manager/rail_placement.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/log.h"
#include "topology/distance.h"
#include "topology/hwloc_tree.h"
#include "topology/infiniband.h"
#include "topology/memory_nodes.h"

namespace railyard {
namespace {

topology::Machine read(const std::string& file) {
    try {
        return topology::read_machine(file);
    } catch (const Error& error) {
        if (!file.empty()) throw;
        RAILYARD_LOG(warn, "topology", "%s: every rail carries all memory", error.what());
        return {};
    }
}

/// Of processes that were started together neighbouring ones, in containers of their own, too, where each of
/// them may have the same number.
std::uint32_t offset_of_process() {
    struct stat names {};
    const bool told = stat("/proc/self/ns/pid", &names) == 0;
    return static_cast<std::uint32_t>(getpid()) + (told ? static_cast<std::uint32_t>(names.st_ino) : 0);
}

}  // namespace

std::optional<topology::PciAddress> address_of(const fabric::Device& device) {
    const fabric::NicPlace& nic = device.nic;
    if (!nic.on_pci_bus) {
        return device.provider.starts_with("verbs") ? topology::pci_of_infiniband(device.name) : std::nullopt;
    }
    return topology::PciAddress{nic.domain, nic.bus, nic.device, nic.function};
}

std::vector<topology::RailDesc> described(std::span<const fabric::Device* const> devices) {
    std::vector<topology::RailDesc> rails;
    for (const fabric::Device* device : devices) {
        rails.push_back({device->name, address_of(*device), device->nic.gbps});
    }
    return rails;
}

topology::Machine machine_of(const Params& params, std::span<const topology::RailDesc> devices) {
    const bool placed =
        std::any_of(devices.begin(), devices.end(), [](const auto& device) { return device.pci; });
    return placed || !params.topology_file.empty() ? read(params.topology_file) : topology::Machine{};
}

RailPlacement::RailPlacement(const Params& params, std::span<const fabric::Device* const> devices,
                             std::size_t first, std::optional<topology::Machine> machine,
                             std::optional<std::uint32_t> offset)
    : first_(first), rails_(described(devices)) {
    const std::span rails = std::span(rails_).subspan(first);
    machine_ = machine ? *std::move(machine) : machine_of(params, rails);
    map_ = topology::select_rails(machine_, rails, {static_cast<double>(params.max_bw_per_dram_seg)});
    for (const std::string& note : map_.notes)
        RAILYARD_LOG(info, "topology", "%s", note.c_str());
    same_everywhere_ =
        std::all_of(map_.by_numa.begin(), map_.by_numa.end(), [&](const topology::RailWindows& windows) {
            return std::all_of(windows.begin(), windows.end(),
                               [&](const auto& window) { return window == map_.all; });
        });
    turns_ = std::vector<std::atomic<std::uint32_t>>(std::max<std::size_t>(map_.by_numa.size(), 1));
    for (std::atomic<std::uint32_t>& turn : turns_)
        turn.store(offset ? *offset : offset_of_process(), std::memory_order_relaxed);
}

RailSet RailPlacement::to_rail_set(const std::vector<std::size_t>& indices) const {
    RailSet rails;
    for (const std::size_t rail : indices)
        rails.push_back(static_cast<std::uint16_t>(first_ + rail));
    return rails;
}

RailSet RailPlacement::for_host_memory(std::uint64_t address, std::uint64_t length,
                                       std::optional<std::uint32_t>& turn) const {
    if (same_everywhere_) return to_rail_set(map_.all);
    const std::vector<int> nodes = topology::memory_nodes(reinterpret_cast<const void*>(address), length);
    if (!turn) turn = next_turn(nodes);
    return to_rail_set(topology::rails_of_nodes(map_, nodes, *turn));
}

std::uint32_t RailPlacement::next_turn(std::span<const int> nodes) const {
    const auto first = nodes.empty() ? 0 : static_cast<std::size_t>(nodes.front());
    return turns_[first < turns_.size() ? first : 0].fetch_add(1, std::memory_order_relaxed);
}

RailSet RailPlacement::for_gpu(const std::string& pci) const {
    const topology::GpuDesc gpu = topology::visible_gpus(machine_, {&pci, 1}).front();
    // A machine that was not read has nothing to say, and nothing that would matter.
    if (gpu.ordinal < 0 && !machine_.tree.empty())
        RAILYARD_LOG(info, "topology", "does not know the GPU at %s: every rail carries its memory",
                     pci.c_str());
    return to_rail_set(topology::rails_of_gpu(map_, gpu));
}

RailSet RailPlacement::below_switch_of_gpu(const std::string& pci) const {
    const topology::GpuDesc gpu = topology::visible_gpus(machine_, {&pci, 1}).front();
    std::vector<std::size_t> below;
    for (const std::size_t rail : topology::rails_of_gpu(map_, gpu)) {
        const topology::NicDesc* nic = topology::nic_at(machine_, rails_[first_ + rail].pci);
        if (nic && topology::closeness(machine_, gpu, *nic) == topology::Closeness::pci_switch)
            below.push_back(rail);
    }
    return to_rail_set(below);
}

std::vector<topology::RailGroup> RailPlacement::groups(std::size_t threads) const {
    return topology::group_rails(machine_, rails_, threads);
}

int RailPlacement::node_of_gpu(const std::string& pci) const {
    return topology::visible_gpus(machine_, {&pci, 1}).front().numa;
}

}  // namespace railyard
