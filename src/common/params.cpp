#include "common/params.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "common/joined.h"
#include "common/log.h"
#include "common/nearest.h"
#include "common/spoken.h"
#include "common/status.h"

namespace railyard {
namespace {

enum class Kind { text, count, bytes, secret };

struct Spec {
    Kind kind;
    const char* name;
    const char* default_value;
    const char* check;
    const char* unit;
    const char* text;
};

struct StockSpec {
    const char* name;
    const char* mapping;
};

constexpr Spec specs[] = {
#define RAILYARD_PARAM(kind, name, default_value, check, unit, text) \
    {Kind::kind, #name, default_value, check, unit, text},
#define RAILYARD_STOCK_PARAM(name, mapping)
#include "common/params.def"
#undef RAILYARD_PARAM
#undef RAILYARD_STOCK_PARAM
};

constexpr StockSpec stock_specs[] = {
#define RAILYARD_PARAM(...)
#define RAILYARD_STOCK_PARAM(name, mapping) {#name, mapping},
#include "common/params.def"
#undef RAILYARD_PARAM
#undef RAILYARD_STOCK_PARAM
};

const char* process_env(const char* name) {
    return std::getenv(name);
}

std::string env_name(const char* prefix, std::string_view name) {
    std::string result = prefix;
    for (char c : name)
        result += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return result;
}

std::optional<std::uint64_t> parse_number(std::string_view text, bool with_suffix) {
    std::uint64_t scale = 1;
    if (with_suffix && !text.empty()) {
        switch (text.back()) {
            case 'K':
            case 'k':
                scale = std::uint64_t{1} << 10;
                break;
            case 'M':
            case 'm':
                scale = std::uint64_t{1} << 20;
                break;
            case 'G':
            case 'g':
                scale = std::uint64_t{1} << 30;
                break;
            default:
                break;
        }
        if (scale != 1) text.remove_suffix(1);
    }
    std::uint64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    if (value > UINT64_MAX / scale) return std::nullopt;
    return value * scale;
}

/// One entry of a list: a word, or a range of numbers.
bool allows(std::string_view entry, std::string_view value) {
    const std::size_t dots = entry.find("..");
    if (dots == std::string_view::npos) return entry == value;
    const std::optional<std::uint64_t> number = parse_number(value, false);
    return number && *number >= parse_number(entry.substr(0, dots), false) &&
           *number <= parse_number(entry.substr(dots + 2), false);
}

bool listed(std::string_view list, std::string_view value) {
    while (!list.empty()) {
        std::size_t comma = std::min(list.find(','), list.size());
        if (allows(list.substr(0, comma), value)) return true;
        list.remove_prefix(std::min(comma + 1, list.size()));
    }
    return false;
}

std::string allowed_text(const Spec& spec) {
    if (spec.kind == Kind::secret) return std::string(spec.check) + " characters or more, or empty";
    if (spec.kind == Kind::text) return *spec.check ? spec.check : "any text";
    std::string suffix = spec.kind == Kind::bytes ? " (bytes; K, M and G multiply by 1024)" : "";
    return std::string(spec.check) + suffix;
}

std::string bad_value(const Spec& spec, std::string_view value) {
    const std::string allowed = "; allowed: " + allowed_text(spec);
    if (spec.kind != Kind::secret) return "bad value \"" + std::string(value) + '"' + allowed;
    return "a secret of " + counted(value.size(), "character") + " is soon guessed" + allowed +
           ". `openssl rand -hex 32` makes a good one, the same for all of the cluster";
}

/// False: the setting does not take the value.
bool assign(const Spec& spec, const std::string& value, std::string& field) {
    if (spec.kind == Kind::secret) {
        if (!value.empty() && value.size() < parse_number(spec.check, false)) return false;
        field = value;
        return true;
    }
    std::string lower = value;
    if (*spec.check) {
        for (char& c : lower)
            c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        if (!listed(spec.check, lower)) return false;
    }
    field = lower;
    return true;
}

bool assign(const Spec& spec, const std::string& value, std::uint64_t& field) {
    bool suffix = spec.kind == Kind::bytes;
    std::string_view range = spec.check;
    std::size_t dots = range.find("..");
    std::uint64_t low = parse_number(range.substr(0, dots), suffix).value_or(0);
    std::uint64_t high = parse_number(range.substr(dots + 2), suffix).value_or(UINT64_MAX);
    std::optional<std::uint64_t> number = parse_number(value, suffix);
    if (!number || *number < low || *number > high) return false;
    field = *number;
    return true;
}

/// Why the setting does not take the value; empty where it has it now.
std::string refusal(Params& params, std::string_view name, const std::string& value) {
    const Spec* spec =
        std::find_if(std::begin(specs), std::end(specs), [&](const Spec& s) { return name == s.name; });
    bool taken = false;
#define RAILYARD_PARAM(kind, field, ...) \
    if (name == #field) taken = assign(*spec, value, params.field);
#define RAILYARD_STOCK_PARAM(name, mapping)
#include "common/params.def"
#undef RAILYARD_PARAM
#undef RAILYARD_STOCK_PARAM
    return taken ? std::string() : bad_value(*spec, value);
}

/// An empty value says nothing: it is what is left of a variable that was to be filled in, and was not.
void set(Params& params, std::string_view name, const std::string& source, const std::string& value) {
    if (value.empty()) return;
    const std::string refused = refusal(params, name, value);
    if (!refused.empty()) throw Error(Status::invalid_param, source + ": " + refused);
}

void set_stock(Params& params, const StockSpec& stock, const std::string& source, const std::string& value) {
    if (value.empty()) return;
    if (*stock.mapping) {
        set(params, stock.mapping, source, value);
        return;
    }
    static std::atomic<unsigned> said{0};
    unsigned bit = 1u << (&stock - stock_specs);
    if ((said.fetch_or(bit, std::memory_order_relaxed) & bit) == 0) {
        RAILYARD_LOG(warn, "", "%s is accepted for compatibility and has no effect here", source.c_str());
    }
}

/// Two names of one setting: moves what the other one says into `devices`.
void settle_devices(Params& params) {
    if (params.network_devices.empty()) return;
    if (!params.devices.empty() && params.devices != params.network_devices) {
        throw Error(Status::invalid_param, "devices \"" + params.devices + "\" and network_devices \"" +
                                               params.network_devices +
                                               "\" are one setting and differ: give one of them");
    }
    params.devices = std::exchange(params.network_devices, {});
}

[[noreturn]] void reject_unknown(const std::string& name) {
    std::vector<std::string> names;
    for (const Spec& spec : specs)
        names.emplace_back(spec.name);
    for (const StockSpec& stock : stock_specs) {
        if (std::find(names.begin(), names.end(), stock.name) == names.end()) names.emplace_back(stock.name);
    }
    throw Error(Status::invalid_param,
                "unknown parameter \"" + name + "\"" + guess(name, names) + "; known: " + joined(names));
}

bool is_own(const std::string& name) {
    return std::any_of(std::begin(specs), std::end(specs),
                       [&](const Spec& spec) { return name == spec.name; });
}

/// Hosts hand back our defaults with what their user changed among them, a stock name perhaps. Our own name
/// says nothing then.
bool gives_way(const ParamMap& given, const std::string& name, const std::string& value) {
    const auto says_more = [&](const StockSpec& stock) {
        const auto said = given.find(stock.name);
        return name == stock.mapping && name != stock.name && said != given.end() && !said->second.empty();
    };
    const auto is_default = [&](const Spec& spec) {
        return name == spec.name && value == spec.default_value;
    };
    return std::any_of(std::begin(specs), std::end(specs), is_default) &&
           std::any_of(std::begin(stock_specs), std::end(stock_specs), says_more);
}

void set_given(Params& params, const std::string& name, const std::string& value) {
    if (is_own(name)) {
        set(params, name, "parameter " + name, value);
        return;
    }
    const StockSpec* stock = std::find_if(std::begin(stock_specs), std::end(stock_specs),
                                          [&](const StockSpec& spec) { return name == spec.name; });
    if (stock == std::end(stock_specs)) reject_unknown(name);
    set_stock(params, *stock, "parameter " + name, value);
}

}  // namespace

Params Params::parse(const ParamMap& given, EnvLookup env) {
    Params params;
    for (const Spec& spec : specs)
        set(params, spec.name, std::string("default of ") + spec.name, spec.default_value);
    // Stock names first, so that our own name wins where both say something.
    for (bool stock_pass : {true, false}) {
        for (const auto& [name, value] : given) {
            if (is_own(name) != stock_pass && !gives_way(given, name, value)) set_given(params, name, value);
        }
    }
    settle_devices(params);
    // The environment wins under either name.
    if (const char* value = env("RAILYARD_NETWORK_DEVICES"); value && *value) params.devices.clear();
    for (const StockSpec& stock : stock_specs) {
        std::string variable = env_name("NIXL_LIBFABRIC_", stock.name);
        if (const char* value = env(variable.c_str())) set_stock(params, stock, variable, value);
    }
    for (const Spec& spec : specs) {
        std::string variable = env_name("RAILYARD_", spec.name);
        if (const char* value = env(variable.c_str())) set(params, spec.name, variable, value);
    }
    settle_devices(params);
    return params;
}

Params Params::parse(const ParamMap& given) {
    return parse(given, process_env);
}

ParamMap Params::defaults() {
    ParamMap result;
    for (const Spec& spec : specs)
        result[spec.name] = spec.default_value;
    for (const StockSpec& stock : stock_specs)
        result.try_emplace(stock.name, "");  // one of our own names keeps its default
    return result;
}

std::vector<ParamDoc> param_docs() {
    static constexpr const char* kind_names[] = {"text", "count", "bytes", "secret"};
    std::vector<ParamDoc> docs;
    for (const Spec& spec : specs) {
        docs.push_back({spec.name, kind_names[static_cast<int>(spec.kind)], spec.default_value,
                        allowed_text(spec), spec.unit, spec.text, env_name("RAILYARD_", spec.name)});
    }
    for (const StockSpec& stock : stock_specs) {
        std::string text = *stock.mapping
                               ? std::string("Stock LIBFABRIC parameter; sets `") + stock.mapping + "`."
                               : "Stock LIBFABRIC parameter; accepted, logged once, without effect.";
        docs.push_back({stock.name, "text", "", "as the stock backend takes it", "", text,
                        env_name("NIXL_LIBFABRIC_", stock.name)});
    }
    return docs;
}

std::string param_refusal(std::string_view name, const std::string& value) {
    Params params;
    return refusal(params, name, value);
}

std::string params_as_markdown() {
    std::string page =
        "# Configuration\n\n"
        "Generated from `src/common/params.def`; `scripts/update-docs` writes it anew.\n\n"
        "Each setting is a backend parameter and an environment variable; the environment wins. An unknown "
        "parameter or a value that is not allowed fails the creation of the backend with a message that "
        "names it; under another backend's name (`libplugin_LIBFABRIC.so`, `libplugin_UCX.so`) an unknown "
        "parameter is a warning and has no effect. An empty value says nothing, in either place: "
        "`RAILYARD_LOCAL_RAIL=\"${SOMETHING:-}\"` "
        "leaves the parameter as it is, or the default.\n\n"
        "| parameter | environment | default | unit | allowed | meaning |\n|---|---|---|---|---|---|\n";
    for (const ParamDoc& doc : param_docs()) {
        std::string shown = doc.default_value.empty() ? "(empty)" : "`" + doc.default_value + "`";
        page += "| `" + doc.name + "` | `" + doc.env + "` | " + shown + " | " + doc.unit + " | " +
                doc.allowed + " | " + doc.text + " |\n";
    }
    return page;
}

void apply_log_level(const Params& params, EnvLookup env) {
    log::Level level = log::Level::warn;
    if (!params.log_level.empty()) {
        log::parse_level(params.log_level, level);
    } else if (const char* text = env("NIXL_LOG_LEVEL")) {
        log::parse_level(text, level);
    }
    log::set_level(level);
}

void apply_log_level(const Params& params) {
    apply_log_level(params, process_env);
}

}  // namespace railyard
