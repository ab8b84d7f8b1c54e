#include "manager/rail_placement.h"

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
                             std::size_t first, std::optional<topology::Machine> machine)
    : first_(first), rails_(described(devices)) {
    const std::span rails = std::span(rails_).subspan(first);
    machine_ = machine ? *std::move(machine) : machine_of(params, rails);
    map_ = topology::select_rails(machine_, rails, {static_cast<double>(params.max_bw_per_dram_seg)});
    for (const std::string& note : map_.notes)
        RAILYARD_LOG(info, "topology", "%s", note.c_str());
    same_everywhere_ = std::all_of(map_.by_numa.begin(), map_.by_numa.end(),
                                   [&](const auto& set) { return set == map_.all; });
}

RailSet RailPlacement::to_rail_set(const std::vector<std::size_t>& indices) const {
    RailSet rails;
    for (const std::size_t rail : indices)
        rails.push_back(static_cast<std::uint16_t>(first_ + rail));
    return rails;
}

RailSet RailPlacement::for_host_memory(std::uint64_t address, std::uint64_t length) const {
    std::vector<int> nodes;
    if (!same_everywhere_) nodes = topology::memory_nodes(reinterpret_cast<const void*>(address), length);
    const std::vector<std::size_t> chosen =
        same_everywhere_ ? map_.all : topology::rails_of_nodes(map_, nodes);
    return to_rail_set(chosen);
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
