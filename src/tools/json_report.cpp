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

Json text_or_null(const std::string& text) {
    return text.empty() ? Json() : Json(text);
}

Json cuda_json(const Survey& survey) {
    const GpuSurvey& cuda = *survey.cuda;
    Json gpus = Json::array();
    for (const GpuRow& row : cuda.gpus) {
        const cuda::Device& device = row.device;
        gpus.push_back({{"ordinal", device.ordinal},
                        {"name", device.name},
                        {"pci", device.pci},
                        {"gpu_direct_rdma", device.gpu_direct_rdma},
                        {"dmabuf", device.dma_buf},
                        {"writes_ordering", row.writes_ordering},
                        {"visibility", row.visibility}});
    }
    std::vector<std::size_t> rails;
    for (std::size_t i = 0; i < survey.rails.size(); ++i) {
        if (survey.rails[i].gpu_memory) rails.push_back(i);
    }
    return {{"built_with", cuda.built_with},
            {"driver", text_or_null(cuda.driver)},
            {"absent_because", text_or_null(cuda.absent_because)},
            {"gpus", gpus},
            {"hmem_rails", names(survey, rails)}};
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
        const topology::RailWindows& windows = survey.map.by_numa[static_cast<std::size_t>(node.node)];
        Json in_turn = Json::array();
        for (const std::vector<std::size_t>& window : windows)
            in_turn.push_back(names(survey, window));
        numa.push_back({{"node", node.node},
                        {"rails", names(survey, topology::rails_in(windows))},
                        {"in_turn", std::move(in_turn)}});
    }
    Json report = {{"rails", rails}, {"gpus", gpus}, {"numa", numa}};
    if (survey.cuda) report["cuda"] = cuda_json(survey);
    // A device name comes from the kernel: whatever is no UTF-8 in it is replaced.
    return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace railyard::tools
