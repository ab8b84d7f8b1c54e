// The two symbols that the plugin exports.
#include "manager/gpus.h"
#include "nixl_abi/abi_asserts.h"
#include "plugin/edge.h"
#include "plugin/host_engine.h"
#include "plugin/older_host.h"
#include "plugin/params_adapter.h"
#include "railyard_version.h"

namespace railyard::plugin {
namespace {

nixlBackendEngine* create_engine(const nixlBackendInitParams* init) noexcept {
    if (init == nullptr) {
        RAILYARD_LOG(error, "", "create_engine: called without parameters");
        return nullptr;
    }
    HostEngine* engine = nullptr;
    guarded(init->localAgent.c_str(), "create_engine", [&] {
        nixlBackendInitParams checked = *init;
        nixl_b_params_t none;
        if (checked.customParams == nullptr)
            checked.customParams = &none;  // the host's base class reads it unasked
        engine = new HostEngine(checked);
        return NIXL_SUCCESS;
    });
    return engine;
}

void destroy_engine(nixlBackendEngine* engine) noexcept {
    delete engine;
}

/// An exception must not cross into the host: no options is the answer when memory is out.
nixl_b_params_t backend_options() noexcept {
    nixl_b_params_t options;
    guarded("", "get_backend_options", [&] {
        options = default_options();
        return NIXL_SUCCESS;
    });
    return options;
}

/// What an engine with default parameters would take on this machine: the host asks before it gives any.
nixl_mem_list_t backend_mems() noexcept {
    nixl_mem_list_t types;
    guarded("", "get_backend_mems", [&] {
        types.push_back(DRAM_SEG);
        if (Gpus::present(Params::parse({}))) types.push_back(VRAM_SEG);
        return NIXL_SUCCESS;
    });
    return types;
}

nixlBackendPlugin table{
    .api_version = 1,
    .create_engine = create_engine,
    .destroy_engine = destroy_engine,
    .get_plugin_name = [] { return "RAILYARD"; },
    .get_plugin_version = [] { return RAILYARD_VERSION; },
    .get_backend_options = backend_options,
    .get_backend_mems = backend_mems,
};

}  // namespace
}  // namespace railyard::plugin

/// The plugin's table; static, so that calls may come in any number and order. None for a host whose
/// interface is another: it has the same number for it.
extern "C" __attribute__((visibility("default"))) nixlBackendPlugin* nixl_plugin_init() {
    if (railyard::plugin::is_older_host(__builtin_return_address(0))) return nullptr;
    return &railyard::plugin::table;
}

/// Nothing to undo: engines end in destroy_engine.
extern "C" __attribute__((visibility("default"))) void nixl_plugin_fini() {}
