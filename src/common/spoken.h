// How users are told some things, in logs and reports.
#pragma once

#include <cstddef>
#include <string>

namespace railyard {

/// "1 rail", "2 rails".
[[nodiscard]] inline std::string counted(std::size_t count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// What libfabric 1.17 calls "net" is asked for as tcp, and is "tcp (net)" here; others are as they are.
[[nodiscard]] inline std::string spoken_provider(const std::string& name) {
    return name == "net" ? "tcp (net)" : name;
}

}  // namespace railyard
