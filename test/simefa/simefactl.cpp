// Control program of the simulated EFA cluster.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "common/output.h"
#include "common/spoken.h"
#include "control.h"

namespace {

using simefa::Control;
using simefa::NicPattern;

struct Arguments {
    std::string cluster;
    NicPattern which;
    std::vector<std::string> changes;
    bool all = false;
};

nlohmann::json to_json(const simefa::NicState& state) {
    return {
        {"host", state.host}, {"nic", state.nic}, {"settings", state.settings}, {"counters", state.counters}};
}

void show(const Arguments& arguments) {
    nlohmann::json nics = nlohmann::json::array();
    for (const simefa::NicState& state : Control(arguments.cluster).list(arguments.which))
        nics.push_back(to_json(state));
    std::cout << nlohmann::json{{"nics", nics}}.dump(2) << "\n";
}

void list(const Arguments& arguments) {
    for (const simefa::NicState& state : Control(arguments.cluster).list(arguments.which)) {
        std::cout << state.host << " " << state.nic;
        for (const auto& [name, value] : state.settings)
            std::cout << " " << name << "=" << value;
        std::cout << "\n";
    }
}

void set(const Arguments& arguments) {
    Control control(arguments.cluster);
    for (const std::string& change : arguments.changes)
        control.set(change, arguments.which);
    control.keep();  // nobody else may be there yet
}

/// Attached to nothing: a Control sweeps by itself, where nobody counts.
void sweep(const Arguments& arguments) {
    const std::size_t files = simefa::sweep_dead_processes(arguments.cluster, arguments.all),
                      clusters = simefa::sweep_dead_clusters(arguments.all);
    std::cout << railyard::counted(files, "file") << " of dead processes removed\n"
              << railyard::counted(clusters, "cluster") << " without processes removed\n";
}

void print_settings() {
    std::printf("%-24s %-12s %s\n", "rate_gbps", "Gbit/s", "tx_rate_gbps and rx_rate_gbps together");
    std::printf("%-24s %-12s %s\n", "link", "up/down", "link_down in words");
    for (const simefa::SettingInfo& info : simefa::setting_table()) {
        std::printf("%-24.*s %-12.*s %.*s\n", static_cast<int>(info.name.size()), info.name.data(),
                    static_cast<int>(info.unit.size()), info.unit.data(), static_cast<int>(info.what.size()),
                    info.what.data());
    }
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Looks at and disturbs the NICs of a simulated EFA cluster, while they run.");
    Arguments arguments;
    app.add_option("--namespace", arguments.cluster,
                   "Which cluster [SIMEFA_NAMESPACE, else one per user and layout]");
    app.require_subcommand(1);
    auto with_pattern = [&](CLI::App* command) {
        command->add_option("--host", arguments.which.host, "Hosts, a shell pattern")->capture_default_str();
        command->add_option("--nic", arguments.which.nic, "NICs, a shell pattern")->capture_default_str();
        return command;
    };
    with_pattern(app.add_subcommand("list", "NICs and what is set on them"))->callback([&] {
        list(arguments);
    });
    with_pattern(app.add_subcommand("show", "Settings and counters, as JSON"))->callback([&] {
        show(arguments);
    });
    CLI::App* change =
        with_pattern(app.add_subcommand("set", "Change NICs, those of processes to come, too"));
    change->add_option("changes", arguments.changes, "KEY=VALUE ...; see `simefactl settings`")->required();
    change->callback([&] { set(arguments); });
    with_pattern(app.add_subcommand("reset", "Settings and counters back to nothing, wires free"))
        ->callback([&] { Control(arguments.cluster).reset(arguments.which); });
    CLI::App* clean = app.add_subcommand("sweep", "Remove what dead processes left");
    clean->add_flag("--all", arguments.all, "Forget kept settings, too");
    clean->callback([&] { sweep(arguments); });
    app.add_subcommand("settings", "What can be set")->callback([] { print_settings(); });
    app.parse_complete_callback([&] {
        if (arguments.cluster.empty()) arguments.cluster = simefa::cluster_name();
        simefa::check_cluster_name("--namespace", arguments.cluster);
    });
    try {
        app.parse(argc, argv);
        return railyard::with_output_written("simefactl", 0);
    } catch (const CLI::Success& asked) {  // --help
        return railyard::with_output_written("simefactl", app.exit(asked));
    } catch (const CLI::ParseError& error) {
        std::cerr << "simefactl: " << error.what() << "; see --help\n";
        return 2;
    } catch (const std::exception& error) {
        std::cerr << "simefactl: " << error.what() << "\n";
        return 1;
    }
}
