// What is wrong with a machine, or could be better, and what to do about it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/doctor/host_facts.h"
#include "tools/survey.h"

namespace railyard::tools {

/// From good to bad.
enum class Severity : std::uint8_t {
    ok,
    note,     ///< worth knowing
    warning,  ///< works, but not as fast or as safely as it could
    error     ///< does not work
};

struct Finding {
    Severity severity = Severity::ok;
    std::string check;   ///< "memlock", "device", ...: names never change
    std::string what;    ///< is the case
    std::string remedy;  ///< what to do; empty for `ok`
};

/// One or more for each check that has something to look at, in an order in which they are best mended.
/// Computes on its arguments alone.
[[nodiscard]] std::vector<Finding> diagnose(const HostFacts& facts, const Survey& survey);

/// Of the worst; ok where there is none.
[[nodiscard]] Severity worst_of(const std::vector<Finding>& findings) noexcept;

/// "ok", "note", "warning", "error".
[[nodiscard]] const char* to_string(Severity severity) noexcept;

/// A line a finding, the remedy below it, and a last line that counts.
[[nodiscard]] std::string diagnosis_text(const std::vector<Finding>& findings);
/// {"version":1,"worst":"warning","findings":[{"check","severity","what","remedy"}]}, remedy null for `ok`.
[[nodiscard]] std::string diagnosis_json(const std::vector<Finding>& findings);

}  // namespace railyard::tools
