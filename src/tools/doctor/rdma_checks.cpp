#include "tools/doctor/rdma_checks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/joined.h"
#include "fabric/info.h"

namespace railyard::tools {
namespace {

/// From this version on libfabric leaves a device alone that is no EFA (libfabric #10990).
constexpr std::uint32_t passes_over_others = FI_VERSION(2, 2);

const char* const only_the_efas =
    "--device /dev/infiniband/uverbsN for each EFA, in Kubernetes the resource vpc.amazonaws.com/efa, and no "
    "hostPath of the whole directory";

/// What ails one device, and how that is said of many.
struct DeviceTrouble {
    std::string name, one, many, remedy;
    Severity severity = Severity::error;
};

/// "32 devices have no driver: a, b, c, d and 28 more".
std::string text_of_many(const std::vector<DeviceTrouble>& kind) {
    std::vector<std::string> names;
    for (const DeviceTrouble& trouble : kind)
        names.push_back(trouble.name);
    return std::to_string(kind.size()) + " devices " + kind.front().many + ": " +
           joined_first(std::move(names));
}

class DeviceChecks {
  public:
    DeviceChecks(const HostFacts& facts, bool offers_efa) : facts_(facts), offers_efa_(offers_efa) {
        for (const VerbsDevice& device : facts.devices) {
            has_efa_ = has_efa_ || device.efa;
            has_usable_efa_ = has_usable_efa_ || (device.efa && device.usable);
        }
    }

    /// Nothing where the device can be used.
    [[nodiscard]] std::optional<DeviceTrouble> trouble_of(const VerbsDevice& device) const {
        if (device.driver.empty()) {
            return DeviceTrouble{
                device.name, device.name + " has no driver", "have no driver",
                device.efa
                    ? "load the kernel module: `modprobe efa`; where there is none, run the EFA installer"
                    : "load the kernel module of this device"};
        }
        if (device.node.empty()) {
            const std::string driven =
                "driven by " + device.driver + ", and the kernel has made no verbs device";
            return DeviceTrouble{device.name, device.name + " is " + driven, "are " + driven,
                                 "load the kernel module ib_uverbs: `modprobe ib_uverbs`"};
        }
        if (!device.present) return missing(device);
        if (!device.refusal.empty()) return refused(device);
        if (!device.usable) {
            return DeviceTrouble{device.name,
                                 device.name + ": this user may not read and write " + device.node,
                                 "have files that this user may not read and write",
                                 "give the user rights to it, by a udev rule or the group of the file"};
        }
        return std::nullopt;
    }

  private:
    /// Where an EFA can be used, this one may have been left out on purpose, which costs the others nothing.
    [[nodiscard]] DeviceTrouble missing(const VerbsDevice& device) const {
        DeviceTrouble trouble{device.name, device.name + ": " + device.node + " is not here",
                              "have files in /dev/infiniband that are not here", missing_node()};
        if (!has_usable_efa_) return trouble;
        trouble.severity = Severity::note;
        trouble.remedy = "nothing, where it is left out on purpose; else: " + trouble.remedy;
        return trouble;
    }

    [[nodiscard]] DeviceTrouble refused(const VerbsDevice& device) const {
        const std::string refused = "cannot be opened: " + device.refusal;
        DeviceTrouble trouble{device.name, device.name + ": " + device.node + " " + refused,
                              "have files that this user has rights to and that " + refused,
                              facts_.container.empty()
                                  ? "see which devices the control group allows (DeviceAllow= of systemd, "
                                    "--device of a container), and `dmesg`"
                                  : missing_node()};
        if (!has_usable_efa_) return trouble;
        if (offers_efa_) trouble.severity = Severity::note;
        trouble.remedy =
            "where it is withheld on purpose, keep its file out of the container, too: while it is there, "
            "libfabric before #12744 (August 2026) offers no EFA at all; else: " +
            trouble.remedy;
        return trouble;
    }

    [[nodiscard]] std::string missing_node() const {
        if (facts_.container == "Kubernetes")
            return "ask for the devices in the pod's resource limits, for EFA vpc.amazonaws.com/efa, with "
                   "their device plugin installed";
        if (facts_.container.empty())
            return "udev makes it: see that udev runs, and `ls /sys/class/infiniband_verbs`; in a container, "
                   "pass it in";
        if (!has_efa_) return "start the container with --device /dev/infiniband";
        return "start the container with --device /dev/infiniband/uverbsN for each EFA; the whole directory "
               "may have another device, one of which costs some versions of libfabric all EFAs";
    }

    const HostFacts& facts_;
    const bool offers_efa_;
    bool has_efa_ = false, has_usable_efa_ = false;
};

/// "a (/dev/infiniband/uverbs1)" and so on, of those that `is_one` says.
template <class IsOne>
std::string with_nodes(const HostFacts& facts, IsOne is_one) {
    std::vector<std::string> names;
    for (const VerbsDevice& device : facts.devices)
        if (device.present && is_one(device)) names.push_back(device.name + " (" + device.node + ")");
    return joined_first(std::move(names));
}

}  // namespace

std::vector<Finding> check_rdma_devices(const HostFacts& facts, bool offers_efa) {
    const DeviceChecks checks(facts, offers_efa);
    std::vector<Finding> findings;
    std::vector<std::vector<DeviceTrouble>> kinds;
    for (const VerbsDevice& device : facts.devices) {
        std::optional<DeviceTrouble> trouble = checks.trouble_of(device);
        if (!trouble) {
            findings.push_back(
                {Severity::ok, "device", device.name + ", driver " + device.driver + ", " + device.node, ""});
            continue;
        }
        const auto alike = [&](const std::vector<DeviceTrouble>& kind) {
            return kind.front().many == trouble->many && kind.front().remedy == trouble->remedy;
        };
        auto kind = std::find_if(kinds.begin(), kinds.end(), alike);
        if (kind == kinds.end()) kind = kinds.emplace(kinds.end());
        kind->push_back(std::move(*trouble));
    }
    for (const std::vector<DeviceTrouble>& kind : kinds) {
        findings.push_back({kind.front().severity, "device",
                            kind.size() == 1 ? kind.front().one : text_of_many(kind), kind.front().remedy});
    }
    return findings;
}

std::string unset_first(const HostFacts& facts, Wanted wanted) {
    std::string text;
    const struct {
        const char* name;
        const std::string& value;
        bool of_efa, of_interfaces;
    } variables[] = {{"FI_PROVIDER", facts.fi_provider, true, true},
                     {"FI_PROVIDER_PATH", facts.fi_provider_path, true, true},
                     {"FI_EFA_IFACE", facts.fi_efa_iface, true, false},
                     {"FI_TCP_IFACE", facts.fi_tcp_iface, false, true},
                     {"FI_NET_IFACE", facts.fi_net_iface, false, true},
                     {"FI_VERBS_IFACE", facts.fi_verbs_iface, false, true}};
    for (const auto& [name, value, of_efa, of_interfaces] : variables) {
        const bool concerns =
            (of_efa && wanted != Wanted::interfaces) || (of_interfaces && wanted != Wanted::efas);
        if (concerns && !value.empty())
            text += std::string("unset ") + name + " (\"" + value +
                    "\" here), which says what libfabric offers; ";
    }
    return text;
}

Finding unoffered_finding(const HostFacts& facts) {
    Finding finding{Severity::error, "libfabric", "it does not offer the EFAs that are here",
                    unset_first(facts, Wanted::efas)};
    const std::string shut = with_nodes(facts, [](const VerbsDevice& one) { return !one.usable; });
    const std::string others =
        with_nodes(facts, [](const VerbsDevice& one) { return one.usable && !one.efa; });
    if (!shut.empty()) {
        finding.what +=
            ": " + shut + " cannot be opened, and one such device is enough for that (libfabric #12708)";
        finding.remedy +=
            std::string("let this user open such devices, or take their files out of the container: ") +
            only_the_efas + "; or have a libfabric with #12744 (August 2026). FI_EFA_IFACE does not help";
    } else if (!others.empty() && facts.library < passes_over_others) {
        finding.what += ": " + others +
                        " is no EFA, and one such device that can be opened is enough for that (libfabric "
                        "#10990)";
        finding.remedy += std::string("take the files of such devices out of the container: ") +
                          only_the_efas + "; or have libfabric 2.2 or later. FI_EFA_IFACE does not help";
    } else {
        finding.remedy +=
            "see `fi_info -p efa`; where `fi_info -l` has no efa, it is built without: the EFA "
            "installer has a libfabric with the provider, -Dlibfabric_path=/opt/amazon/efa";
    }
    return finding;
}

}  // namespace railyard::tools
