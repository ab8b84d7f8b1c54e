// Settings of one engine, read from backend parameters and the environment. The list itself is params.def.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace railyard {

using ParamMap = std::map<std::string, std::string>;
/// Looks up an environment variable; nullptr when unset. Replaceable, so that tests need not touch the
/// process.
using EnvLookup = const char* (*)(const char* name);

namespace param_kind {
using text = std::string;
using secret = std::string;
using count = std::uint64_t;
using bytes = std::uint64_t;
}  // namespace param_kind

struct Params {
#define RAILYARD_PARAM(kind, name, ...) param_kind::kind name{};
#define RAILYARD_STOCK_PARAM(name, mapping)
#include "common/params.def"
#undef RAILYARD_PARAM
#undef RAILYARD_STOCK_PARAM

    /// Defaults, then `given`, then the environment; what is empty says nothing. Throws Error{invalid_param}
    /// naming the parameter, its value and what is allowed, for an unknown name or a bad value. Accepted
    /// stock parameters without a meaning here are logged once per process.
    static Params parse(const ParamMap& given, EnvLookup env);
    static Params parse(const ParamMap& given);
    /// Every accepted name with its default, for the host's get_backend_options.
    static ParamMap defaults();
};

/// One row of the settings' documentation (docs/configuration.md is made of these).
struct ParamDoc {
    std::string name, kind, default_value, allowed, unit, text, env;
};
std::vector<ParamDoc> param_docs();
/// docs/configuration.md, whole.
std::string params_as_markdown();

/// Why the setting `name`, which there is, does not take `value`, for an option of a tool: "bad value ...;
/// allowed: ..."; empty where it does. Nothing passes for a number here.
[[nodiscard]] std::string param_refusal(std::string_view name, const std::string& value);

/// Applies the log settings: RAILYARD_LOG_LEVEL or the parameter, else NIXL_LOG_LEVEL, else warn.
/// Process-wide.
void apply_log_level(const Params& params, EnvLookup env);
void apply_log_level(const Params& params);

}  // namespace railyard
