#include "fabric/info.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <algorithm>

#include "common/log.h"
#include "common/shortage.h"
#include "common/status.h"
#include "fabric/choices.h"
#include "fabric/interfaces.h"
#include "fabric/no_device.h"
#include "fabric/unoffered_efas.h"
#include "fabric/usable.h"

namespace railyard::fabric {
namespace {

std::string_view trimmed(std::string_view text) noexcept {
    while (text.starts_with(' '))
        text.remove_prefix(1);
    while (text.ends_with(' '))
        text.remove_suffix(1);
    return text;
}

/// What fi_getinfo is asked for besides.
struct Wish {
    bool gpu_memory = false;
    bool spends_receives = true;  ///< immediate data may take a receive buffer
    /// Peers on this host are to be reached as all others are: fabric efa opens shm besides, if it may, in
    /// which all memory is registered once more, and then has nothing to wait for. shm alone would not be
    /// offered at all.
    bool no_shm = false;
};

/// The kinds of rail that a data path of ours can be built on.
InfoPtr make_hints(fi_ep_type kind, Wish wish) {
    InfoPtr hints(fi_allocinfo());
    if (!hints) throw Error(Status::backend, "fi_allocinfo failed: out of memory");
    hints->caps = FI_MSG | FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_SEND | FI_RECV;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    if (wish.spends_receives) hints->mode |= FI_RX_CQ_DATA;
    if (wish.no_shm) hints->caps |= FI_REMOTE_COMM;
    hints->ep_attr->type = kind;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    if (wish.gpu_memory) {
        hints->caps |= FI_HMEM;
        hints->domain_attr->mr_mode |= FI_MR_HMEM;
    }
    // A rail's role serialises its endpoint and completion queue; memory is registered from any thread.
    hints->domain_attr->threading = FI_THREAD_COMPLETION;
    return hints;
}

/// The newest interface that these headers know: a newer library keeps their layout for it.
constexpr std::uint32_t headers_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);

/// An older library has nothing to offer to who asks for a newer interface than its own.
std::uint32_t api_version() {
    return std::min(headers_version, fi_version());
}

void warn_of_versions(std::string_view family) {
    if (fi_version() < headers_version) {
        RAILYARD_LOG(warn, std::string(family).c_str(),
                     "libfabric %u.%u is older than the headers of %d.%d that this was built with: what came "
                     "between is not used; build against the installed libfabric (-Dlibfabric_path)",
                     FI_MAJOR(fi_version()), FI_MINOR(fi_version()), FI_MAJOR_VERSION, FI_MINOR_VERSION);
    }
    if (!family.starts_with("efa") || headers_version >= efa_rdma_version || fi_version() < efa_rdma_version)
        return;
    RAILYARD_LOG(
        warn, "efa",
        "built with the headers of libfabric %d.%d and running on %u.%u: EFA leaves device RDMA off for so "
        "old a client; build against the installed libfabric (-Dlibfabric_path)",
        FI_MAJOR_VERSION, FI_MINOR_VERSION, FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
}

InfoPtr query(const fi_info& hints) {
    fi_info* list = nullptr;
    const int rc = fi_getinfo(api_version(), nullptr, nullptr, 0, &hints, &list);
    if (rc == -FI_ENODATA || rc == -FI_ENOSYS) return nullptr;
    if (rc != 0) {
        throw Error(Status::backend, std::string("fi_getinfo failed: ") + fi_strerror(-rc) +
                                         "; check with `fi_info -l` that libfabric is installed whole" +
                                         shortage());
    }
    return InfoPtr(list);
}

/// Puts those with FI_HMEM in the place of the same devices without it.
void prefer(std::vector<Device>& devices, std::vector<Device> with_gpu_memory) {
    for (Device& better : with_gpu_memory) {
        auto same = std::find_if(devices.begin(), devices.end(),
                                 [&](const Device& device) { return device.name == better.name; });
        if (same != devices.end()) {
            *same = std::move(better);
        } else {
            devices.push_back(std::move(better));
        }
    }
}

/// Answers of fi_getinfo, each asked for once.
class Offers {
  public:
    explicit Offers(fi_ep_type kind) : kind_(kind) {}
    const fi_info* list(Wish wish) {
        Answer& answer = answers_[wish.gpu_memory][wish.spends_receives][wish.no_shm];
        if (!answer.asked) answer.list = query(*make_hints(kind_, wish));
        answer.asked = true;
        return answer.list.get();
    }
    std::vector<Device> devices(const Choice& choice, Wish wish) {
        wish.no_shm = is_efa(choice.family);
        std::vector<Device> found = devices_of(list({false, wish.spends_receives, wish.no_shm}), choice);
        if (wish.gpu_memory && may_reach_gpus(choice.family)) prefer(found, devices_of(list(wish), choice));
        return found;
    }
    /// efa-direct spends receive buffers on immediate data where it may; where it may not and has to, on
    /// older devices, it carries none.
    std::vector<Device> best_devices(const Choice& choice, bool gpu_memory) {
        if (choice.family == "efa-direct") {
            std::vector<Device> found = devices(choice, {gpu_memory, false});
            const auto carries = [](const Device& device) { return device.caps.immediate_data; };
            if (!found.empty() && std::all_of(found.begin(), found.end(), carries)) return found;
        }
        std::vector<Device> found = devices(choice, {gpu_memory, true});
        if (choice.family == "efa") note_what_tells(found);
        return found;
    }

  private:
    /// Fabric efa takes no receive buffer for immediate data where its device can do without, and no entry of
    /// its own says so: one of efa-direct does, which is not offered, or carries none, where it would need
    /// them.
    void note_what_tells(std::vector<Device>& devices) {
        const auto direct = devices_of(list({false, false, true}), {"efa-direct", "efa", "efa-direct"});
        for (Device& device : devices) {
            device.caps.tells_of_writes = std::any_of(direct.begin(), direct.end(), [&](const Device& other) {
                return other.name == device.name && other.caps.tells_of_writes;
            });
        }
    }
    struct Answer {
        bool asked = false;
        InfoPtr list;
    };
    const fi_ep_type kind_;
    Answer answers_[2][2][2];
};

void order_by_filter(std::vector<Device>& devices, const DeviceFilter& filter) {
    if (filter.exclude) return;
    auto rank = [&](const Device& d) { return std::find(filter.names.begin(), filter.names.end(), d.name); };
    std::stable_sort(devices.begin(), devices.end(),
                     [&](const Device& a, const Device& b) { return rank(a) < rank(b); });
}

std::vector<std::string> names_of(const std::vector<Device>& devices) {
    std::vector<std::string> names;
    for (const Device& device : devices)
        names.push_back(device.name);
    return names;
}

}  // namespace

bool DeviceFilter::allows(std::string_view name) const noexcept {
    if (names.empty()) return true;
    const bool listed = std::find(names.begin(), names.end(), name) != names.end();
    return listed != exclude;
}

DeviceFilter parse_device_filter(std::string_view text) {
    DeviceFilter filter;
    std::string_view rest = trimmed(text);
    if (rest.empty()) return filter;
    if (rest.front() == '^') {
        filter.exclude = true;
        rest.remove_prefix(1);
    }
    for (;;) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        const std::string_view name = trimmed(rest.substr(0, comma));
        if (name.empty() || name.find('^') != std::string_view::npos) {
            throw Error(Status::invalid_param,
                        "parameter devices: bad value \"" + std::string(text) +
                            "\"; allowed: names separated by commas, a leading ^ to exclude");
        }
        filter.names.emplace_back(name);
        if (comma == rest.size()) return filter;
        rest.remove_prefix(comma + 1);
    }
}

std::vector<Device> discover(std::string_view provider, const DeviceFilter& filter, bool gpu_memory,
                             Absent absent, std::string_view after,
                             const std::filesystem::path& rdma_devices) {
    const bool connected = provider.ends_with(connected_suffix);
    Offers offers(connected ? FI_EP_MSG : FI_EP_RDM);
    std::vector<Offered> offered;
    Network network;
    for (const Choice& choice : choices_for(provider, after)) {
        std::vector<Device> devices = offers.best_devices(choice, gpu_memory);
        offered.push_back({choice.family, names_of(devices)});
        if (is_tcp(choice.family)) network = {network_interfaces(), default_route_interface()};
        keep_usable(devices, choice.family, filter, network);
        order_by_filter(devices, filter);
        if (devices.empty()) continue;
        if (absent == Absent::told) {
            warn_of_absent(filter, offered.back());
            const bool auto_first = provider == "auto" && after.empty();
            if (auto_first && !is_efa(choice.family))
                warn_of_unoffered_efas(choice.family, filter, offers.list({}), rdma_devices);
            if (is_tcp(choice.family) || (auto_first && choice.family == "shm"))
                warn_of_staying_here(devices, filter, offered, network.interfaces);
        }
        warn_of_versions(choice.family);
        return devices;
    }
    const bool may_be_efa = after.empty() && (provider == "auto" || is_efa(provider));
    const fi_info* const list = offers.list({});
    throw no_device(provider, filter, offered, list,
                    may_be_efa ? unoffered_efas(filter, list, rdma_devices) : std::string());
}

}  // namespace railyard::fabric
