#include <algorithm>
#include <map>
#include <set>

#include "common/joined.h"
#include "common/spoken.h"
#include "tools/reports.h"
#include "tools/table.h"

namespace railyard::tools {
namespace {

std::string numa_text(int numa) {
    return numa == topology::unknown_numa ? "-" : std::to_string(numa);
}

/// The names, or how many where that is all of many.
std::string rails_text(const Survey& survey, const std::vector<std::size_t>& indices) {
    if (indices.empty()) return "none";
    if (indices.size() == survey.rails.size() && indices.size() > 4)
        return "all " + std::to_string(indices.size());
    return joined(rail_names(survey, indices), " ");
}

/// Of several, how many of all a range of host memory gets.
std::string windows_text(const Survey& survey, const topology::RailWindows& windows) {
    if (windows.size() < 2) return rails_text(survey, topology::rails_in(windows));
    std::set<std::size_t> sizes;
    for (const std::vector<std::size_t>& window : windows)
        sizes.insert(window.size());
    std::string text = std::to_string(*sizes.begin());
    if (sizes.size() > 1) text += " to " + std::to_string(*sizes.rbegin());
    return text + " of " + std::to_string(topology::rails_in(windows).size()) + ", in turn";
}

std::string memory_text(std::uint64_t bytes) {
    return std::to_string(bytes >> 30) + " GiB";
}

const char* yes_no(bool value) {
    return value ? "yes" : "no";
}

/// "-" where there was no reason to ask.
const char* hmem_text(const Survey& survey, const RailRow& rail) {
    return survey.cuda && !survey.cuda->gpus.empty() ? yes_no(rail.gpu_memory) : "-";
}

std::string rails_section(const Survey& survey) {
    std::string text = "Rails: " + std::to_string(survey.rails.size());
    if (!survey.family.empty()) text += ", family " + survey.family;
    text += "\n";
    if (!survey.rails.empty()) {
        Table table({"#", "device", "provider", "fabric", "PCI", "NUMA", "Gbit/s", "state", "FI_HMEM"});
        for (std::size_t i = 0; i < survey.rails.size(); ++i) {
            const RailRow& rail = survey.rails[i];
            table.add({std::to_string(i), rail.name, spoken_provider(rail.provider), rail.fabric,
                       rail.pci ? to_string(*rail.pci) : "-", numa_text(rail.numa), gbps_text(rail.gbps),
                       rail.state, hmem_text(survey, rail)});
        }
        text += table.text();
    }
    if (!survey.others.empty()) {
        text += "\nWould do as well, with the setting provider:\n";
        for (const std::string& other : survey.others)
            text += "  " + other + "\n";
    }
    return text;
}

std::string attribute_lines(const std::vector<Attribute>& attributes) {
    std::string text;
    std::string group;
    for (const Attribute& attribute : attributes) {
        const std::string shown = attribute.group == group ? "" : attribute.group;
        group = attribute.group;
        text += "  " + shown + std::string(std::max<std::size_t>(shown.size(), 7) + 1 - shown.size(), ' ') +
                attribute.name + ": " + attribute.value + "\n";
    }
    return text;
}

bool has(const RailRow& rail, const Attribute& wanted) {
    return std::any_of(rail.attributes.begin(), rail.attributes.end(), [&](const Attribute& a) {
        return a.group == wanted.group && a.name == wanted.name && a.value == wanted.value;
    });
}

std::string attributes_section(const Survey& survey, bool every_attribute) {
    if (survey.rails.empty() || survey.rails.front().attributes.empty()) return "";
    std::string text;
    if (every_attribute) {
        for (const RailRow& rail : survey.rails)
            text += "\nAttributes of " + rail.name + "\n" + attribute_lines(rail.attributes);
        return text;
    }
    std::vector<Attribute> common;
    std::vector<std::string> different;
    for (const Attribute& attribute : survey.rails.front().attributes) {
        if (std::all_of(survey.rails.begin(), survey.rails.end(),
                        [&](const RailRow& rail) { return has(rail, attribute); })) {
            common.push_back(attribute);
        } else {
            different.push_back(attribute.group + " " + attribute.name);
        }
    }
    text = std::string("\nAttributes") + (survey.rails.size() > 1 ? ", the same on every rail" : "") + "\n" +
           attribute_lines(common);
    if (!different.empty()) text += "  Others differ: " + joined(different) + " (--attributes shows them)\n";
    return text;
}

std::string gpus_section(const Survey& survey) {
    if (survey.machine.gpus.empty()) return "\nGPUs: none\n";
    Table table({"#", "PCI", "NUMA", "rails", "why"});
    for (std::size_t i = 0; i < survey.machine.gpus.size(); ++i) {
        const topology::GpuDesc& gpu = survey.machine.gpus[i];
        table.add({std::to_string(i), to_string(gpu.pci), numa_text(gpu.numa),
                   rails_text(survey, survey.map.by_gpu[i]), survey.map.gpu_reasons[i]});
    }
    return "\nGPUs: " + std::to_string(survey.machine.gpus.size()) + ", in bus order\n" + table.text();
}

std::string cuda_section(const Survey& survey) {
    if (!survey.cuda) return "";
    const GpuSurvey& cuda = *survey.cuda;
    std::string text = std::string("\nCUDA: built ") +
                       (cuda.built_with.starts_with("without") ? "" : "with ") + cuda.built_with;
    text += cuda.driver.empty() ? ", no driver" : ", driver for CUDA " + cuda.driver;
    if (!cuda.absent_because.empty()) text += ": " + cuda.absent_because;
    text += "\n";
    if (cuda.gpus.empty()) return text;
    Table table({"ordinal", "name", "PCI", "memory", "GPUDirect RDMA", "dmabuf", "writes ordered for",
                 "NIC's writes visible"});
    for (const GpuRow& row : cuda.gpus) {
        const cuda::Device& device = row.device;
        table.add({std::to_string(device.ordinal), device.name, device.pci, memory_text(device.memory),
                   yes_no(device.gpu_direct_rdma), yes_no(device.dma_buf), row.writes_ordering,
                   row.visibility});
    }
    return text + table.text();
}

std::string nodes_section(const Survey& survey) {
    if (survey.machine.numa.empty()) return "\nNUMA nodes: unknown; host memory uses all rails\n";
    Table table({"node", "memory", "rails for host memory", "why"});
    for (const topology::NumaNode& node : survey.machine.numa) {
        const auto number = static_cast<std::size_t>(node.node);
        table.add({std::to_string(node.node), memory_text(node.memory),
                   windows_text(survey, survey.map.by_numa[number]), survey.map.numa_reasons[number]});
    }
    return "\nNUMA nodes: " + std::to_string(survey.machine.numa.size()) + "\n" + table.text();
}

}  // namespace

std::string text_report(const Survey& survey, bool every_attribute) {
    std::string text = survey.title + ", topology of " + survey.source + "\n\n" + rails_section(survey) +
                       gpus_section(survey) + cuda_section(survey) + nodes_section(survey);
    if (!survey.map.notes.empty()) text += "\n";
    for (const std::string& note : survey.map.notes)
        text += "Note: " + note + "\n";
    return text + attributes_section(survey, every_attribute);
}

}  // namespace railyard::tools
