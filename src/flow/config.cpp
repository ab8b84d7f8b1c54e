#include "flow/config.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <string>
#include <string_view>

#include "fabric/info.h"
#include "fabric/interfaces.h"
#include "flow/edge.h"
#include "flow/geometry.h"

namespace railyard::flow {
namespace {

/// In the order of ryf_provider, by what the engine calls them.
constexpr std::array<const char*, 5> provider_names = {"auto", "tcp", "verbs", "efa", "shm"};

const char* name_of(ryf_provider provider) {
    const auto at = static_cast<std::size_t>(provider);
    if (at >= provider_names.size())
        refuse(RYF_ERR_INVALID_ARG,
               "provider " + std::to_string(static_cast<int>(provider)) + " is none of ryf_provider");
    return provider_names[at];
}

/// What of the engine's providers may be meant, best first.
std::vector<std::string> engine_providers(const ryf_config& config) {
    const std::string name = name_of(config.provider);
    switch (config.endpoint) {
        case RYF_ENDPOINT_DEFAULT:
        case RYF_ENDPOINT_RDM:
            if (name == "efa") return {"efa-direct", "efa"};
            return {name};
        case RYF_ENDPOINT_MSG:
            if (config.provider == RYF_PROVIDER_ANY) return {"verbs-msg", "tcp-msg"};
            if (name == "verbs" || name == "tcp") return {name + std::string(fabric::connected_suffix)};
            refuse(RYF_ERR_UNSUPPORTED, "provider " + name +
                                            " has no endpoints of kind MSG, tcp and verbs do: use "
                                            "RYF_ENDPOINT_RDM, or RYF_ENDPOINT_DEFAULT");
    }
    refuse(RYF_ERR_INVALID_ARG, "the endpoint kind is none of ryf_endpoint");
}

/// Of what libfabric has, or RYF_PROVIDER_ANY where this API has no word for it.
ryf_provider provider_of(std::string_view family) {
    if (family.ends_with(fabric::connected_suffix)) family.remove_suffix(fabric::connected_suffix.size());
    if (family == "efa-direct") return RYF_PROVIDER_EFA;
    const auto found = std::find(provider_names.begin(), provider_names.end(), family);
    return found == provider_names.end() ? RYF_PROVIDER_ANY
                                         : static_cast<ryf_provider>(found - provider_names.begin());
}

ryf_interface to_interface(const fabric::Device& device) {
    ryf_interface result{};
    result.provider = provider_of(device.family);
    std::snprintf(result.name, sizeof(result.name), "%s", device.name.c_str());
    std::snprintf(result.fabric, sizeof(result.fabric), "%s", device.provider.c_str());
    result.caps = device.caps.connected ? RYF_CAP_MSG : RYF_CAP_RDM;
    if (device.caps.gpu_memory) result.caps |= RYF_CAP_GPU_MEMORY;
    if (device.caps.virtual_addresses) result.caps |= RYF_CAP_VIRTUAL_ADDRESSES;
    if (device.caps.immediate_data) result.caps |= RYF_CAP_IMMEDIATE;
    result.gbit_per_s = device.nic.gbps;
    return result;
}

/// What a device can do over connections is the same that it can do with datagrams.
void add(const ryf_interface& one, std::vector<ryf_interface>& all) {
    const auto known = std::find_if(all.begin(), all.end(), [&](const ryf_interface& other) {
        return one.caps & RYF_CAP_MSG && other.provider == one.provider &&
               std::string_view(other.name) == one.name;
    });
    if (known == all.end()) {
        all.push_back(one);
    } else {
        known->caps |= RYF_CAP_MSG;
    }
}

/// Where nobody names any, tcp is offered on one interface alone.
fabric::DeviceFilter everything(std::string_view family) {
    fabric::DeviceFilter filter;
    if (provider_of(family) != RYF_PROVIDER_TCP) return filter;
    for (const fabric::NetworkInterface& interface : fabric::network_interfaces()) {
        if (interface.up) filter.names.push_back(interface.name);
    }
    return filter;
}

void check(const ryf_region& region, std::size_t index, std::uint64_t length) {
    const std::string name = "region " + std::to_string(index);
    const auto address = reinterpret_cast<std::uint64_t>(region.address);
    if (!region.address || region.length == 0) refuse(RYF_ERR_INVALID_ARG, name + " is empty");
    if (address + region.length < address)
        refuse(RYF_ERR_INVALID_ARG, name + " wraps around the end of memory");
    if (region.memory != RYF_MEMORY_HOST && region.memory != RYF_MEMORY_CUDA)
        refuse(RYF_ERR_INVALID_ARG, name + " is of memory that is none of ryf_memory");
    if (region.length != length) {
        refuse(RYF_ERR_INVALID_ARG, name + " has " + std::to_string(region.length) + " bytes, region 0 has " +
                                        std::to_string(length) + ": all must have the same");
    }
}

}  // namespace

std::vector<Region> to_regions(const ryf_region* regions, std::size_t count) {
    if (count == 0 || count > most_grains) {
        refuse(RYF_ERR_INVALID_ARG,
               std::to_string(count) + " regions: 1 to " + std::to_string(most_grains) + " can be used");
    }
    std::vector<Region> result;
    result.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        check(regions[i], i, regions[0].length);
        result.push_back({reinterpret_cast<std::uint64_t>(regions[i].address), regions[i].length,
                          regions[i].device,
                          regions[i].memory == RYF_MEMORY_CUDA ? MemoryType::device : MemoryType::host});
    }
    return result;
}

SideConfig to_side_config(const ryf_config& config, const std::vector<Region>& regions) {
    if (std::any_of(std::begin(config.reserved), std::end(config.reserved),
                    [](auto word) { return word != 0; }))
        refuse(RYF_ERR_INVALID_ARG,
               "the configuration's reserved fields are not 0: it was not zeroed (`ryf_config config = "
               "{0};`), or is "
               "for a newer library than this one, " +
                   std::to_string(RYF_VERSION_MAJOR) + "." + std::to_string(RYF_VERSION_MINOR) + "." +
                   std::to_string(RYF_VERSION_PATCH));
    SideConfig result;
    result.providers = engine_providers(config);
    result.devices = config.interface ? config.interface : "";
    result.rails = config.rails;
    result.rails_per_device = config.rails_per_device ? config.rails_per_device : 1;
    result.slices = config.slices ? config.slices : 1;
    result.regions = regions;
    return result;
}

std::vector<ryf_interface> list_interfaces(ryf_provider provider) {
    static_cast<void>(name_of(provider));
    std::vector<ryf_interface> all;
    std::string reason;
    for (const std::string_view family : fabric::families()) {
        if (provider != RYF_PROVIDER_ANY && provider != provider_of(family)) continue;
        try {
            for (const fabric::Device& device : fabric::discover(family, everything(family), true))
                add(to_interface(device), all);
        } catch (const Error& error) {
            reason = error.what();
        }
    }
    if (all.empty()) throw NoFabric(Status::backend, reason);
    return all;
}

ryf_target_report to_report(const TargetReport& report) noexcept {
    ryf_target_report out{};
    std::snprintf(out.id, sizeof(out.id), "%s", report.id.c_str());
    switch (report.state) {
        case TargetState::connecting:
            out.state = RYF_TARGET_CONNECTING;
            break;
        case TargetState::connected:
            out.state = RYF_TARGET_CONNECTED;
            break;
        case TargetState::gone:
            out.state = RYF_TARGET_GONE;
    }
    out.under_way = report.under_way;
    out.grains = report.grains;
    out.bytes = report.bytes;
    out.failed = report.failed;
    out.left_out = report.left_out;
    std::snprintf(out.error, sizeof(out.error), "%s", report.error.c_str());
    return out;
}

}  // namespace railyard::flow
