#include "fabric/unoffered_efas.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/joined.h"
#include "common/log.h"
#include "common/occasional.h"
#include "common/variables.h"

namespace railyard::fabric {
namespace {

namespace fs = std::filesystem;

/// Amazon's; of its PCI devices EFAs alone are RDMA devices.
constexpr unsigned vendor_amazon = 0x1d0f;

std::vector<std::string> efas_of_kernel(const fs::path& rdma_devices) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator entry(rdma_devices, error), end; !error && entry != end;
         entry.increment(error)) {
        unsigned vendor = 0;
        std::ifstream(entry->path() / "device/vendor") >> std::hex >> vendor;
        if (vendor == vendor_amazon) names.push_back(entry->path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
}

bool offers_efa(const fi_info* list) {
    for (const fi_info* info = list; info; info = info->next)
        if (std::string_view(info->fabric_attr->prov_name) == "efa") return true;
    return false;
}

}  // namespace

std::string unoffered_efas(const DeviceFilter& filter, const fi_info* list, const fs::path& rdma_devices) {
    if (offers_efa(list)) return {};
    std::vector<std::string> names = efas_of_kernel(rdma_devices);
    std::erase_if(names, [&](const std::string& name) { return !filter.allows(name); });
    if (names.empty()) return {};
    return "the kernel has EFAs (" + joined_first(std::move(names)) +
           "), and libfabric offers none of them: it is without the efa provider, their files in "
           "/dev/infiniband are not here or not for this user, or there is an RDMA device that cannot be "
           "opened, or is no EFA: one is enough for some versions (libfabric #12708, #10990); or the "
           "environment leaves them out. `railyard-info doctor` says which it is" +
           in_environment({"FI_PROVIDER", "FI_PROVIDER_PATH", "FI_EFA_IFACE"});
}

void warn_of_unoffered_efas(std::string_view family, const DeviceFilter& filter, const fi_info* list,
                            const fs::path& rdma_devices) {
    const std::string why = unoffered_efas(filter, list, rdma_devices);
    if (why.empty()) return;
    const std::string taken(family);
    const std::string text =
        "auto takes " + taken + ": " + why + "; where " + taken + " is meant, set provider=" + taken;
    static LastSaid last;
    if (last.is_news(text)) RAILYARD_LOG(warn, "", "%s", text.c_str());
}

}  // namespace railyard::fabric
