// What a machine has and who serves whom: everything that railyard-info reports, gathered once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/attributes.h"
#include "tools/gpu_survey.h"
#include "topology/rail_selection.h"

namespace railyard::tools {

/// One rail that an engine would open, and its device.
struct RailRow {
    std::string name, provider, fabric;
    std::optional<topology::PciAddress> pci;
    int numa = topology::unknown_numa;
    double gbps = 0;                    ///< 0: unknown
    std::string state;                  ///< "up", "down" or "unknown"
    bool gpu_memory = false;            ///< FI_HMEM was asked for and granted
    std::vector<Attribute> attributes;  ///< none offline
};

struct Survey {
    std::string title;                ///< the machine's name, or the file's
    std::string source;               ///< where the topology comes from, in words
    bool unasked = false;             ///< provider is auto and devices names none: nobody chose the family
    std::string family;               ///< which providers were chosen, e.g. "efa-direct"; empty offline
    std::vector<std::string> others;  ///< other families that would do, with their devices, a line each
    bool offers_efa = false;          ///< libfabric has EFAs, whatever was asked for; false offline
    std::string trouble;              ///< why there are no rails; empty where there are
    topology::Machine machine;
    std::vector<RailRow> rails;
    topology::RailMap map;
    std::optional<GpuSurvey> cuda;  ///< nothing offline
};

struct SurveyOptions {
    std::string xml;       ///< file to take the topology from; empty: this machine or HWLOC_XMLFILE
    bool offline = false;  ///< nothing but the topology: its EFAs are the rails
    std::string provider = "auto";
    std::string devices;                            ///< as the setting of that name
    std::uint64_t rails = 0, rails_per_device = 0;  ///< as the settings of these names
    std::string gpu_devices;                        ///< likewise
    double max_host_gbps = 0;                       ///< as topology::SelectionRules has it
    bool stage_always = false;  ///< vram_staging=always: rails are not asked for GPU memory
};

/// Asks libfabric and the CUDA driver (unless offline), and hwloc. Throws Error for a topology that cannot be
/// read and for options that make no sense; no usable device is not an error but Survey::trouble.
[[nodiscard]] Survey make_survey(const SurveyOptions& options);

/// Names of the rails, in order.
[[nodiscard]] std::vector<std::string> rail_names(const Survey& survey,
                                                  const std::vector<std::size_t>& indices);

/// "100", "12.5", or "?" for an unknown speed.
[[nodiscard]] std::string gbps_text(double gbps);

}  // namespace railyard::tools
