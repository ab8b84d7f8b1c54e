#include "fabric/no_device.h"

#include <algorithm>
#include <set>

#include "common/joined.h"
#include "common/log.h"
#include "common/nearest.h"
#include "common/shortage.h"
#include "common/variables.h"
#include "fabric/choices.h"
#include "fabric/interfaces.h"

namespace railyard::fabric {
namespace {

std::string in_quotes(std::string_view text) {
    return "\"" + std::string(text) + "\"";
}

bool holds(const std::vector<std::string>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

/// One entry a family: of tcp there are several providers.
std::vector<Offered> by_family(const std::vector<Offered>& offered) {
    std::vector<Offered> result;
    for (const Offered& one : offered) {
        if (one.names.empty()) continue;
        const auto same = std::find_if(result.begin(), result.end(),
                                       [&](const Offered& other) { return other.family == one.family; });
        Offered& into = same == result.end() ? result.emplace_back(Offered{one.family, {}}) : *same;
        for (const std::string& name : one.names)
            if (!holds(into.names, name)) into.names.push_back(name);
    }
    return result;
}

std::string listed(const std::vector<Offered>& offered) {
    std::vector<std::string> parts;
    for (const Offered& one : offered)
        parts.push_back(std::string(one.family) + " has " + joined(one.names));
    return joined(parts, "; ");
}

/// Nothing that libfabric has is meant by it.
std::string wrong_provider(std::string_view provider, const fi_info* list) {
    std::vector<std::string> words{"auto"};
    for (const std::string_view family : families())
        words.emplace_back(family);
    std::set<std::string> devices, providers;
    for (const fi_info* info = list; info; info = info->next) {
        providers.insert(info->fabric_attr->prov_name);
        devices.insert(std::string(info->fabric_attr->prov_name) + ":" + device_name(*info));
    }
    const std::string there = devices.empty() ? "nothing" : joined(devices);
    if (provider == "auto") return "libfabric offers none that carries rails, of all it has: " + there;
    if (holds(words, provider))
        return "libfabric offers no device of provider " + in_quotes(provider) +
               " here, of all it has: " + there;
    std::vector<std::string> known = words;
    known.insert(known.end(), providers.begin(), providers.end());
    return "unknown provider " + in_quotes(provider) + guess(provider, known) + "; known: " + joined(words) +
           (providers.empty() ? "; libfabric offers nothing here"
                              : ", and what libfabric offers here: " + joined(providers));
}

/// libfabric has some, and `devices`, or what is down, leaves none of them.
std::string wrong_devices(const DeviceFilter& filter, const std::vector<Offered>& offered) {
    std::vector<std::string> all;
    for (const Offered& one : offered)
        all.insert(all.end(), one.names.begin(), one.names.end());
    const auto allowed = [&](const std::string& name) { return filter.allows(name); };
    if (std::any_of(all.begin(), all.end(), allowed))
        return "none that `devices` allows is up, has an IP address, or is the default route's; " +
               listed(offered);
    const std::string setting =
        "devices " + in_quotes((filter.exclude ? "^" : "") + joined(filter.names, ","));
    if (filter.exclude) return setting + " excludes every device; " + listed(offered);
    std::string text = setting + " names no device that there is";
    if (filter.names.size() == 1) text += guess(filter.names.front(), all);
    return text + "; " + listed(offered);
}

}  // namespace

Error no_device(std::string_view provider, const DeviceFilter& filter, const std::vector<Offered>& offered,
                const fi_info* list, const std::string& unoffered) {
    const std::vector<Offered> there = by_family(offered);
    std::string message = "no usable device: ";
    message += there.empty() ? wrong_provider(provider, list) : wrong_devices(filter, there);
    message += unoffered.empty() ? in_environment({"FI_PROVIDER", "FI_PROVIDER_PATH"}) : "; " + unoffered;
    message += ". Check `fi_info -l`" + shortage();
    return {Status::backend, message};
}

void warn_of_absent(const DeviceFilter& filter, const Offered& offered) {
    std::vector<NetworkInterface> interfaces;
    if (filter.exclude) interfaces = network_interfaces();
    for (const std::string& name : filter.names) {
        const auto same = [&](const NetworkInterface& one) { return one.name == name; };
        if (holds(offered.names, name) || std::any_of(interfaces.begin(), interfaces.end(), same)) continue;
        RAILYARD_LOG(warn, "", "devices %s %s, which no device is called%s; %s",
                     filter.exclude ? "excludes" : "names", name.c_str(), guess(name, offered.names).c_str(),
                     listed({offered}).c_str());
    }
}

}  // namespace railyard::fabric
