// The command line of railyard-flow as values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "railyard/flow.h"

namespace railyard::tools::flow {

enum class Role { target, initiator };

struct Options {
    Role role = Role::target;
    std::vector<std::string> info;  ///< files; none: standard output, or input

    ryf_provider provider = RYF_PROVIDER_ANY;
    ryf_endpoint endpoint = RYF_ENDPOINT_DEFAULT;
    std::string interface;  ///< names with commas between; empty: the library chooses
    std::uint32_t rails = 0;
    std::uint32_t rails_per_device = 0;

    std::uint64_t grain_size = 0;  ///< header included
    std::uint32_t ring = 16;
    std::uint32_t slices = 0;
    std::uint64_t grains = 0;  ///< 0: endless
    bool json = false;

    std::string output;       ///< target: file to write
    double idle_timeout = 5;  ///< target, seconds

    bool send_slices = false;     ///< initiator, as what follows
    double rate = 0;              ///< grains a second; 0: as fast as possible
    std::string file;             ///< cut into grains
    double connect_timeout = 10;  ///< seconds
};

/// Either options, or the text to print and the exit status (0 for --help, 2 for a usage error).
struct ParsedOptions {
    std::optional<Options> options;
    std::string text;
    int exit_status = 0;
};

[[nodiscard]] ParsedOptions parse_options(int argc, const char* const* argv);

/// Digits and at most one of K, M, G (powers of 1024). Throws UsageError, which names `option`.
[[nodiscard]] std::uint64_t parse_size(const char* option, std::string_view text);

}  // namespace railyard::tools::flow
