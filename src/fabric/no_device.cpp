#include "fabric/no_device.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cstdint>
#include <set>

#include "common/joined.h"
#include "common/log.h"
#include "common/nearest.h"
#include "common/occasional.h"
#include "common/shortage.h"
#include "common/variables.h"
#include "fabric/choices.h"
#include "fabric/shm_names.h"

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

/// What may keep libfabric from offering a device.
std::string limits() {
    return in_environment(
        {"FI_PROVIDER", "FI_PROVIDER_PATH", "FI_TCP_IFACE", "FI_NET_IFACE", "FI_VERBS_IFACE"});
}

/// For which libfabric leaves shm out.
std::string small_shared_memory(std::string_view provider, const fi_info* list) {
    constexpr std::uint64_t mib = 1 << 20;
    if (provider != "shm" && provider != "auto") return {};
    for (const fi_info* info = list; info; info = info->next)
        if (info->fabric_attr->prov_name == std::string_view("shm")) return {};
    struct statvfs there {};
    if (statvfs("/dev/shm", &there) != 0) return {};
    const std::uint64_t free = there.f_bavail * there.f_bsize;
    const std::uint64_t wanted = shm_bytes_wanted();
    if (free >= wanted) return {};
    return "; /dev/shm has " + std::to_string(free / mib) +
           " MiB free, and for shm libfabric asks for some 16 MiB a core (" + std::to_string(wanted / mib) +
           " MiB here): give it more (of a container: --shm-size), or take away what fills it";
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
        return "none that `devices` allows is up and has an IP address; " + listed(offered);
    const std::string setting =
        "devices " + in_quotes((filter.exclude ? "^" : "") + joined(filter.names, ","));
    if (filter.exclude) return setting + " excludes every device; " + listed(offered);
    std::string text = setting + " names no device that there is";
    if (filter.names.size() == 1) text += guess(filter.names.front(), all);
    return text + "; " + listed(offered);
}

bool is_loopback(const std::vector<NetworkInterface>& interfaces, std::string_view name) {
    return std::any_of(interfaces.begin(), interfaces.end(),
                       [&](const NetworkInterface& one) { return one.name == name && one.loopback; });
}

/// Those behind which peers may be, where what is offered is nothing but what stays on this machine.
std::string unoffered_interfaces(const DeviceFilter& filter,
                                 const std::vector<NetworkInterface>& interfaces) {
    std::vector<std::string> names;
    for (const NetworkInterface& one : interfaces)
        if (leads_out(one) && filter.allows(one.name)) names.push_back(one.name);
    if (names.empty()) return {};
    return "libfabric offers tcp on none of the network interfaces that are up and have an address (" +
           joined_first(std::move(names)) + ")";
}

/// What it offers of tcp, beside the loopback, where nothing of it has become a rail.
std::string unusable_tcp(const DeviceFilter& filter, const std::vector<Offered>& offered,
                         const std::vector<NetworkInterface>& interfaces) {
    for (const Offered& one : by_family(offered)) {
        const auto unused = [&](const std::string& name) {
            return filter.allows(name) && !is_loopback(interfaces, name);
        };
        if (is_tcp(one.family) && std::any_of(one.names.begin(), one.names.end(), unused))
            return listed({one}) + ", and none of it is up and has an address";
    }
    return {};
}

}  // namespace

Error no_device(std::string_view provider, const DeviceFilter& filter, const std::vector<Offered>& offered,
                const fi_info* list, const std::string& unoffered) {
    const std::vector<Offered> there = by_family(offered);
    std::string message = "no usable device: ";
    message += there.empty() ? wrong_provider(provider, list) : wrong_devices(filter, there);
    message += unoffered.empty() ? limits() : "; " + unoffered;
    message += small_shared_memory(provider, list);
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

void warn_of_staying_here(const std::vector<Device>& taken, const DeviceFilter& filter,
                          const std::vector<Offered>& offered,
                          const std::vector<NetworkInterface>& interfaces) {
    const Device& first = taken.front();
    const bool shm = !is_tcp(first.family);
    if ((!shm && !is_loopback(interfaces, first.name)) || (!filter.empty() && !filter.exclude)) return;
    std::string why = unoffered_interfaces(filter, interfaces);
    if (why.empty() && shm) why = unusable_tcp(filter, offered, interfaces);
    if (why.empty()) return;
    const std::string text = (shm ? "auto takes shm" : "tcp takes " + first.name) +
                             ", which reaches no other machine: " + why + limits() +
                             "; `railyard-info doctor` says what to do; where " + first.name +
                             " is meant, set " + (shm ? "provider=" : "devices=") + first.name;
    static LastSaid last;
    if (last.is_news(text)) RAILYARD_LOG(warn, "", "%s", text.c_str());
}

}  // namespace railyard::fabric
