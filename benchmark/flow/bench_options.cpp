#include "bench_options.h"

#include <CLI/CLI.hpp>

namespace railyard::bench {

FlowBenchOptions parse(int argc, char** argv, CLI::App& app) {
    FlowBenchOptions options;
    std::string provider = "tcp", size = "8M";
    std::vector<std::string> environment;
    options.flow.ring = 8;
    app.add_option("--provider", provider, "tcp, shm or efa")->check(CLI::IsMember({"tcp", "shm", "efa"}));
    app.add_option("--interface", options.flow.interface, "device or network interface");
    app.add_option("--rails", options.flow.rails, "upper limit for the number of rails");
    app.add_option("--size", size, "bytes of a grain");
    app.add_option("--ring", options.flow.ring, "grains of the ring, all of which may be under way");
    app.add_option("--targets", options.targets, "processes that each get every grain");
    app.add_option("--seconds", options.seconds, "for all that is measured");
    app.add_option("--slices", options.slices, "that ours and the plain loop take turns in");
    app.add_flag("--latency", options.latency, "grains there and back, one at a time: half of that time");
    app.add_flag(
        "--notified", options.notified,
        "instead of grains, writes with notification through the plugin, and in the plain loop a message "
        "after each write; with --latency");
    app.add_option("--plugin-dir", options.plugin_dir, "for that: where libplugin_RAILYARD.so is");
    app.add_flag("!--no-raw", options.raw, "without the plain loop");
    app.add_option("--raw-endpoints", options.raw_endpoints, "of the plain loop, a side: 1 or 2")
        ->check(CLI::Range(1, 2));
    app.add_option("--target-env", environment, "NAME=VALUE for the targets' processes");
    app.parse(argc, argv);
    options.flow.provider = provider == "tcp"   ? RYF_PROVIDER_TCP
                            : provider == "shm" ? RYF_PROVIDER_SHM
                                                : RYF_PROVIDER_EFA;
    if (provider == "tcp" && options.flow.interface.empty()) options.flow.interface = "lo";
    options.raw_provider = provider;
    options.flow.grain_size = tools::flow::parse_size("--size", size);
    for (const std::string& entry : environment) {
        const std::size_t equals = entry.find('=');
        if (equals == std::string::npos)
            throw CLI::ValidationError("--target-env", entry + " is not NAME=VALUE");
        options.target_environment.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
    }
    if (options.notified && !options.latency) throw CLI::ValidationError("--notified", "goes with --latency");
    if (options.latency && options.targets > 1)
        throw CLI::ValidationError("--latency", "goes with one target");
    return options;
}

}  // namespace railyard::bench
