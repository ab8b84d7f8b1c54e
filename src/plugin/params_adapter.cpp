#include "plugin/params_adapter.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/log.h"
#include "common/nearest.h"
#include "common/params.h"
#include "common/status.h"

namespace railyard::plugin {
namespace {

/// Takes the names that are no parameters of ours out of `given`, and returns them.
std::vector<std::string> take_unknown(ParamMap& given) {
    const ParamMap known = Params::defaults();
    std::vector<std::string> unknown;
    for (auto next = given.begin(); next != given.end();) {
        const auto here = next++;
        if (!known.contains(here->first)) unknown.push_back(std::move(given.extract(here).key()));
    }
    return unknown;
}

void warn_of_unknown(const std::string& agent, const std::string& type,
                     const std::vector<std::string>& unknown) {
    if (unknown.empty()) return;
    std::vector<std::string> names;
    for (const auto& [name, value] : Params::defaults())
        names.push_back(name);
    for (const std::string& name : unknown)
        RAILYARD_LOG(warn, agent.c_str(), "parameter %s has no effect here%s: the backend %s is Railyard's",
                     name.c_str(), guess(name, names).c_str(), type.c_str());
}

}  // namespace

EngineConfig engine_config(const nixlBackendInitParams& init) {
    if (init.localAgent.empty()) throw Error(Status::invalid_param, "the agent has no name");
    ParamMap given;
    if (init.customParams != nullptr) given.insert(init.customParams->begin(), init.customParams->end());

    // Under another backend's name come that one's parameters, from programs that do not know whose plugin
    // has the name.
    std::vector<std::string> unknown;
    if (init.type != "RAILYARD") unknown = take_unknown(given);

    EngineConfig config;
    config.agent_name = init.localAgent;
    config.params = Params::parse(given);
    apply_log_level(config.params);
    warn_of_unknown(init.localAgent, init.type, unknown);
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
