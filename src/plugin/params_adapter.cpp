#include "plugin/params_adapter.h"

#include <limits>

#include "common/params.h"
#include "common/status.h"

namespace railyard::plugin {

EngineConfig engine_config(const nixlBackendInitParams& init) {
    if (init.localAgent.empty()) throw Error(Status::invalid_param, "the agent has no name");
    ParamMap given;
    if (init.customParams != nullptr) given.insert(init.customParams->begin(), init.customParams->end());

    EngineConfig config;
    config.agent_name = init.localAgent;
    config.params = Params::parse(given);
    apply_log_level(config.params);
    config.progress_thread = init.enableProgTh;
    constexpr auto longest = std::uint64_t{std::numeric_limits<std::int32_t>::max()};
    if (init.pthrDelay > longest)
        throw Error(Status::invalid_param,
                    "pthrDelay " + std::to_string(init.pthrDelay) + " us is out of range");
    config.progress_delay = std::chrono::microseconds(init.pthrDelay);
    return config;
}

nixl_b_params_t default_options() {
    const ParamMap defaults = Params::defaults();
    return {defaults.begin(), defaults.end()};
}

}  // namespace railyard::plugin
