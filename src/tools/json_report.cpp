#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/reports.h"

namespace railyard::tools {
namespace {

using Json = nlohmann::ordered_json;

/// 100 and not 100.0.
Json number(double value) {
    if (value == std::floor(value)) return static_cast<std::int64_t>(value);
    return value;
}

Json names(const Survey& survey, const std::vector<std::size_t>& indices) {
    Json list = Json::array();
    for (const std::string& name : rail_names(survey, indices))
        list.push_back(name);
    return list;
}

}  // namespace

std::string json_report(const Survey& survey) {
    Json rails = Json::array();
    for (const RailRow& rail : survey.rails) {
        rails.push_back({{"name", rail.name},
                         {"pci", rail.pci ? Json(to_string(*rail.pci)) : Json()},
                         {"numa", rail.numa},
                         {"gbps", number(rail.gbps)},
                         {"provider", rail.provider},
                         {"fabric", rail.fabric}});
    }
    Json gpus = Json::array();
    for (const topology::GpuDesc& gpu : survey.machine.gpus) {
        gpus.push_back({{"pci", to_string(gpu.pci)},
                        {"numa", gpu.numa},
                        {"rails", names(survey, topology::rails_of_gpu(survey.map, gpu))}});
    }
    Json numa = Json::array();
    for (const topology::NumaNode& node : survey.machine.numa) {
        const std::vector<int> one{node.node};
        numa.push_back(
            {{"node", node.node}, {"rails", names(survey, topology::rails_of_nodes(survey.map, one))}});
    }
    const Json report = {{"rails", rails}, {"gpus", gpus}, {"numa", numa}};
    // A device name comes from the kernel: whatever is no UTF-8 in it is replaced.
    return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace railyard::tools
