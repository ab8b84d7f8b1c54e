// What a fault may cost: the one table of expectations that the campaign's oracle goes by.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace railyard::fault {

enum class Fault : std::uint8_t {
    eagain,      ///< posts refused for a while
    rate,        ///< a NIC crawls
    delay,       ///< latency and jitter
    shuffle,     ///< out of order
    error,       ///< operations end with an error: nobody answers
    refused,     ///< the same, and the error is that the other side refuses them
    not_ready,   ///< messages find no receive buffer
    link,        ///< nothing passes on a NIC for some steps
    late,        ///< operations report an error and land all the same
    gone,        ///< a NIC is removed
    disconnect,  ///< one engine forgets another, and is told of it again
    restart,     ///< an engine is destroyed, and made again under its name
    deregister,  ///< memory is deregistered, transfers on it or not
    release,     ///< a handle is released in flight
    timeout,     ///< a transfer takes longer than the xfer_timeout_ms of the engine that posted it
    secret,      ///< two engines do not have the same cluster_secret
    count
};
inline constexpr std::size_t fault_count = static_cast<std::size_t>(Fault::count);

enum class Errors : std::uint8_t {
    never,
    without_path,  ///< only when faults covered, of each pair of NICs between the two engines, one or both
    allowed,
};

/// Of faults of one kind, while they last and at the engines that they hit; an engine's transfers are those
/// from and to it.
struct Rule {
    Errors errors = Errors::never;
    bool lasting = false;                       ///< explains errors from its beginning to the end of the run
    bool late_emulated_writes_allowed = false;  ///< after an error; see Oracle::writes_are_emulated
    bool nothing_passes = false;                ///< the two never become peers
};

/// One line a kind, in the order of Fault.
inline constexpr std::array<Rule, fault_count> rules = {{
    /* eagain */ {.errors = Errors::never},
    /* rate */ {.errors = Errors::never},
    /* delay */ {.errors = Errors::never},
    /* shuffle */ {.errors = Errors::never},
    // A peer that was gone is back after a probe.
    /* error */ {.errors = Errors::without_path, .lasting = true, .late_emulated_writes_allowed = true},
    /* refused */ {.errors = Errors::allowed},
    /* not_ready */ {.errors = Errors::without_path, .lasting = true, .late_emulated_writes_allowed = true},
    /* link */ {.errors = Errors::without_path, .lasting = true, .late_emulated_writes_allowed = true},
    // It takes the sender from under others, too, whose packets their target may have.
    /* late */ {.errors = Errors::without_path, .lasting = true, .late_emulated_writes_allowed = true},
    /* gone */ {.errors = Errors::without_path, .lasting = true, .late_emulated_writes_allowed = true},
    /* disconnect */ {.errors = Errors::allowed},
    /* restart */ {.errors = Errors::allowed},
    /* deregister */ {.errors = Errors::allowed},
    /* release */ {},
    /* timeout */ {.errors = Errors::allowed, .late_emulated_writes_allowed = true},
    /* secret */ {.errors = Errors::allowed, .nothing_passes = true},
}};

inline constexpr std::array<std::string_view, fault_count> fault_names = {
    "eagain", "rate", "delay",      "shuffle", "error",      "refused", "not_ready", "link",
    "late",   "gone", "disconnect", "restart", "deregister", "release", "timeout",   "secret"};

[[nodiscard]] constexpr const Rule& rule_of(Fault fault) noexcept {
    return rules[static_cast<std::size_t>(fault)];
}

/// Fault that a setting of a simulated NIC makes; nothing for settings that only shape another one.
[[nodiscard]] constexpr std::optional<Fault> fault_of(std::string_view setting) noexcept {
    if (setting == "error_code=7") return Fault::refused;
    const std::string_view key = setting.substr(0, setting.find('='));
    if (key.starts_with("eagain_")) return Fault::eagain;
    if (key.ends_with("rate_gbps")) return Fault::rate;
    if (key == "latency_us" || key == "jitter_us") return Fault::delay;
    if (key == "out_of_order") return Fault::shuffle;
    if (key == "error_next" || key == "error_probability" || key == "lost_answer_next") return Fault::error;
    if (key.starts_with("rnr_")) return Fault::not_ready;
    if (key == "link") return Fault::link;
    if (key == "late_next" || key == "late_probability") return Fault::late;
    if (key == "gone") return Fault::gone;
    return std::nullopt;
}

}  // namespace railyard::fault
