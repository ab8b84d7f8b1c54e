#include "tools/survey.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "common/status.h"
#include "fabric/info.h"
#include "manager/gpus.h"
#include "manager/rail_placement.h"
#include "topology/hwloc_tree.h"
#include "topology/rail_order.h"

namespace railyard::tools {
namespace {

using topology::NicDesc;

std::string host_name() {
    std::array<char, 256> name{};
    return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this machine";
}

std::string file_stem(const std::string& path) {
    const std::string name = path.substr(path.find_last_of('/') + 1);
    return name.ends_with(".xml") && name.size() > 4 ? name.substr(0, name.size() - 4) : name;
}

std::string state_of(const fi_info& info) {
    if (!info.nic || !info.nic->link_attr)
        return "up";  // without a NIC of its own: discovery leaves out what is down
    switch (info.nic->link_attr->state) {
        case FI_LINK_UP:
            return "up";
        case FI_LINK_DOWN:
            return "down";
        default:
            return "unknown";
    }
}

RailRow live_row(const fabric::Device& device, const topology::Machine& machine) {
    const fi_info& info = *device.info;
    RailRow row;
    row.name = device.name;
    row.provider = device.provider;
    if (info.fabric_attr->name) row.fabric = info.fabric_attr->name;
    row.pci = address_of(device);
    row.gbps = device.nic.gbps;
    row.state = state_of(info);
    row.attributes = attributes_of(info);
    row.gpu_memory = device.caps.gpu_memory;
    if (const NicDesc* nic = nic_at(machine, row.pci)) {
        row.numa = nic->numa;
        if (row.gbps <= 0) row.gbps = nic->gbps;
    }
    return row;
}

/// The first EFA generation writes in software only, which the fabric efa does and efa-direct does not.
RailRow offline_row(const NicDesc& nic) {
    const char* fabric = nic.device_id == 0xefa0 ? "efa" : "efa-direct";
    const std::string name = nic.name.empty() ? to_string(nic.pci) : nic.name;
    return {name, "efa", fabric, nic.pci, nic.numa, nic.gbps, "unknown", false, {}};
}

std::vector<topology::RailDesc> described(const std::vector<RailRow>& rows) {
    std::vector<topology::RailDesc> rails;
    for (const RailRow& row : rows)
        rails.push_back({row.name, row.pci, row.gbps});
    return rails;
}

/// Their names, or how many there are where those would fill the screen.
std::string device_names(const std::vector<fabric::Device>& devices) {
    if (devices.size() > 4) return std::to_string(devices.size()) + " devices";
    std::string text;
    for (const fabric::Device& device : devices)
        text += (text.empty() ? "" : ", ") + device.name;
    return text;
}

void find_others(const SurveyOptions& options, const fabric::DeviceFilter& filter, Survey& survey) {
    if (options.provider != "auto") return;
    for (const std::string_view family : fabric::families()) {
        if (family == survey.family) continue;
        try {
            const std::vector<fabric::Device> devices = fabric::discover(family, filter);
            const std::string& provider = devices.front().provider;
            const std::string text = std::string(family) + (provider == family ? "" : " (" + provider + ")");
            survey.others.push_back(text + ": " + device_names(devices));
        } catch (const Error&) {
            continue;  // the machine has none of that family
        }
    }
}

/// Also those that the settings do not name.
bool libfabric_has_efas() {
    for (const char* family : {"efa-direct", "efa"}) {
        try {
            return !fabric::discover(family, {}, false, fabric::Absent::untold).empty();
        } catch (const Error&) {
            continue;
        }
    }
    return false;
}

/// Of a row for each device a row for each rail, as an engine opens them.
std::vector<RailRow> rails_on(const std::vector<RailRow>& devices, const topology::RailLimits& limits,
                              const SurveyOptions& options, const topology::Machine& machine) {
    std::vector<topology::GpuDesc> visible;
    if (limits.leave_a_choice(devices.size()) && !options.offline) {
        Params params;
        params.gpu_devices = options.gpu_devices;
        visible = topology::visible_gpus(machine, Gpus(params).places());
    }
    std::vector<std::size_t> order = topology::rail_order(machine, described(devices), limits, visible);
    order.resize(limits.most(devices.size()));
    std::vector<RailRow> rails;
    for (const std::size_t device : order)
        rails.push_back(devices[device]);
    return rails;
}

void find_rails(const SurveyOptions& options, Survey& survey) {
    const fabric::DeviceFilter filter = fabric::parse_device_filter(options.devices);
    survey.unasked = options.provider == "auto" && (filter.empty() || filter.exclude);
    try {
        // As an engine asks.
        const bool gpu_memory = survey.cuda && !survey.cuda->gpus.empty() && !options.stage_always;
        const std::vector<fabric::Device> devices = fabric::discover(options.provider, filter, gpu_memory);
        survey.family = devices.front().family;
        std::vector<RailRow> rows;
        for (const fabric::Device& device : devices)
            rows.push_back(live_row(device, survey.machine));
        const auto on_each =
            fabric::rails_on_each(options.rails_per_device, rows.size(), devices.front().caps);
        survey.rails = rails_on(rows, {options.rails, on_each, filter.orders()}, options, survey.machine);
    } catch (const Error& error) {
        survey.trouble = error.what();
    }
    find_others(options, filter, survey);
    survey.offers_efa = survey.family.starts_with("efa") || libfabric_has_efas();
}

void find_efas(const SurveyOptions& options, Survey& survey) {
    const fabric::DeviceFilter filter = fabric::parse_device_filter(options.devices);
    std::vector<RailRow> rows;
    for (const NicDesc& nic : survey.machine.nics) {
        if (!nic.efa) continue;
        RailRow row = offline_row(nic);
        if (filter.allows(row.name)) rows.push_back(std::move(row));
    }
    if (filter.orders()) {
        auto named = [&](const RailRow& row) {
            return std::find(filter.names.begin(), filter.names.end(), row.name);
        };
        std::stable_sort(rows.begin(), rows.end(),
                         [&](const RailRow& a, const RailRow& b) { return named(a) < named(b); });
    }
    const std::uint64_t on_each = std::max<std::uint64_t>(options.rails_per_device, 1);
    survey.rails = rails_on(rows, {options.rails, on_each, filter.orders()}, options, survey.machine);
    if (!survey.rails.empty()) return;
    survey.trouble = filter.empty() ? "the topology has no EFA (PCI id 1d0f:efa*)"
                                    : "the topology has no EFA (PCI id 1d0f:efa*) that devices allows";
}

}  // namespace

Survey make_survey(const SurveyOptions& options) {
    Survey survey;
    survey.machine = topology::read_machine(options.xml);
    survey.title = options.xml.empty() ? host_name() : file_stem(options.xml);
    if (!options.xml.empty()) {
        survey.source = options.xml;
    } else {
        survey.source = survey.machine.this_machine ? "this machine" : "the file that HWLOC_XMLFILE names";
    }
    if (options.offline) {
        find_efas(options, survey);
    } else {
        survey.cuda = make_gpu_survey();
        find_rails(options, survey);
    }
    survey.map = topology::select_rails(survey.machine, described(survey.rails), {options.max_host_gbps});
    return survey;
}

std::vector<std::string> rail_names(const Survey& survey, const std::vector<std::size_t>& indices) {
    std::vector<std::string> names;
    for (const std::size_t index : indices)
        names.push_back(survey.rails.at(index).name);
    return names;
}

std::string gbps_text(double gbps) {
    if (gbps <= 0) return "?";
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.4g", gbps);
    return text.data();
}

}  // namespace railyard::tools
