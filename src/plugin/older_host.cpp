#include "plugin/older_host.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <iterator>

#include "common/log.h"

namespace railyard::plugin {
namespace {

/// What libnixl.so exports before 1.0, and from 1.0 on no more (seen in the wheels of 0.2.0 to 1.5.1).
constexpr const char* gone_since[] = {
    // nixlBackendEngine::createGpuXferReq(...) const, a virtual function of the interface: 0.6 to 0.10
    "_ZNK17nixlBackendEngine16createGpuXferReqERK15nixlBackendReqHRK12nixlDescListI12nixlMetaDescES7_RPv",
    // nixlPluginHandle::createEngine(nixlBackendInitParams const*) const: 0.2 to 0.8
    "_ZNK16nixlPluginHandle12createEngineEPK21nixlBackendInitParams",
};

}  // namespace

bool is_older_host(const void* caller) noexcept {
    Dl_info found{};
    const char* path = dladdr(caller, &found) != 0 && found.dli_fname != nullptr ? found.dli_fname : "";
    // Hosts are loaded with RTLD_LOCAL, as extensions of Python are: their symbols are not among all others.
    void* const host = *path != '\0' ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    const bool older = std::any_of(std::begin(gone_since), std::end(gone_since), [&](const char* symbol) {
        return dlsym(host != nullptr ? host : RTLD_DEFAULT, symbol) != nullptr;
    });
    if (host != nullptr) dlclose(host);
    static std::atomic<bool> said{false};
    if (older && !said.exchange(true)) {
        RAILYARD_LOG(error, "",
                     "this NIXL is older than 1.0: its plugin interface is another; install nixl >= 1.0 (%s)",
                     path);
    }
    return older;
}

}  // namespace railyard::plugin
