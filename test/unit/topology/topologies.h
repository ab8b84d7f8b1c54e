// What the topology tests share: where the XML files lie, and short ways to write machines and rails down.
#pragma once

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "topology/hwloc_tree.h"
#include "topology/rail_selection.h"

namespace railyard::topology {

inline std::string topology_file(const std::string& name) {
    return std::string(RAILYARD_SOURCE_ROOT) + "/test/topo/" + name + ".xml";
}

/// Captures of real machines, which lie beside the repository where there are any; "" else.
inline std::string capture_file(const std::string& name) {
    const std::string path = std::string(RAILYARD_SOURCE_ROOT) + "/../shared/topologies/" + name + ".xml";
    return std::ifstream(path).good() ? path : "";
}

/// One rail for every EFA, in bus order, without speeds: those are the topology's to say.
inline std::vector<RailDesc> efa_rails(const Machine& machine) {
    std::vector<RailDesc> rails;
    for (const NicDesc& nic : machine.nics) {
        if (nic.efa) rails.push_back({nic.name, nic.pci, 0});
    }
    return rails;
}

/// "53" for 0000:53:00.0, "10:1c" for 0000:10:1c.0, with a leading domain where it is not 0.
inline std::string short_name(const PciAddress& pci) {
    char text[32];
    std::snprintf(text, sizeof text, pci.device ? "%02x:%02x" : "%02x", pci.bus, pci.device);
    if (pci.domain == 0) return text;
    char domain[16];
    std::snprintf(domain, sizeof domain, "%x/", pci.domain);
    return std::string(domain) + text;
}

inline std::string short_names(const std::vector<RailDesc>& rails, const std::vector<std::size_t>& indices) {
    std::string text;
    for (const std::size_t index : indices) {
        const RailDesc& rail = rails.at(index);
        text += (text.empty() ? "" : ",") + (rail.pci ? short_name(*rail.pci) : rail.name);
    }
    return text;
}

/// "53:4f,50 ..." as "GPU=rails GPU=rails", in bus order.
inline std::string gpu_table(const Machine& machine, const std::vector<RailDesc>& rails, const RailMap& map) {
    std::string text;
    for (const GpuDesc& gpu : machine.gpus) {
        text += (text.empty() ? "" : " ") + short_name(gpu.pci) + "=" +
                short_names(rails, map.by_gpu.at(static_cast<std::size_t>(gpu.ordinal)));
    }
    return text;
}

}  // namespace railyard::topology
