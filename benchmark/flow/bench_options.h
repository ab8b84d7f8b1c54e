// What flow-bench is asked for.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/flow/options.h"

namespace CLI {
class App;
}

namespace railyard::bench {

struct FlowBenchOptions {
    tools::flow::Options flow;  ///< provider, rails, ring, size of a grain
    std::string raw_provider;   ///< the engine's name of the provider
    unsigned targets = 1;
    double seconds = 5;
    unsigned slices = 45;
    bool latency = false;
    bool raw = true;
    bool notified = false;       ///< WRITEs with notification through the plugin, instead of grains
    std::string plugin_dir;      ///< for that; empty: as plugin_directory
    unsigned raw_endpoints = 1;  ///< a side: 2, one to write from and one to be written to, as ours
    std::vector<std::pair<std::string, std::string>> target_environment;
};

/// Adds the options to `app` and reads the command line. Throws CLI::ParseError.
[[nodiscard]] FlowBenchOptions parse(int argc, char** argv, CLI::App& app);

}  // namespace railyard::bench
