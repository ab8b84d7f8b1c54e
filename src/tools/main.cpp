// railyard-info: which rails a machine has, which GPU and which memory they serve, and why; and what running
// engines do.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>

#include "common/number_range.h"
#include "common/output.h"
#include "common/params.h"
#include "common/status.h"
#include "common/unexpected_option.h"
#include "common/usage_error.h"
#include "common/variables.h"
#include "railyard_version.h"
#include "tools/doctor/diagnosis.h"
#include "tools/doctor/settings_check.h"
#include "tools/live_rates.h"
#include "tools/live_view.h"
#include "tools/reports.h"

namespace railyard::tools {
namespace {

constexpr int usage_error = 2;     // as the other tools have it
constexpr int unknown_health = 3;  // of the doctor, whose 2 is a machine on which something does not work

struct Command {
    SurveyOptions survey;
    bool json = false;
    bool attributes = false;
    std::string svg;
    std::vector<std::string> live;
    double interval = 0;  ///< s, between two looks; 0: one look
    bool doctor = false;
    std::string root;               ///< of the files that the doctor looks at
    std::vector<Finding> settings;  ///< what is wrong with the environment's, for the doctor
    std::string control_interface;  ///< the setting oob_interface, likewise
};

void declare(CLI::App& app, Command& command) {
    app.set_version_flag("--version", RAILYARD_VERSION);
    auto* const provider =
        app.add_option(
               "--provider", command.survey.provider,
               "as the setting provider: auto, efa-direct, efa, cxi, verbs, tcp, shm, verbs-msg, tcp-msg")
            ->capture_default_str();
    app.add_option("--devices", command.survey.devices,
                   "as the setting devices: names separated by commas, ^ first to exclude");
    app.add_option(
           "--max-bw-per-dram-seg", command.survey.max_host_gbps,
           "as the setting max_bw_per_dram_seg: most that a range of host memory gets rails for (Gbit/s)")
        ->capture_default_str()
        ->check(CLI::Validator([](std::string& text) { return param_refusal("max_bw_per_dram_seg", text); },
                               "NONNEGATIVE"));
    app.add_option("--xml", command.survey.xml,
                   "take the topology from this hwloc XML file, not from this machine")
        ->type_name("FILE");
    app.add_flag("--offline", command.survey.offline,
                 "ask no libfabric: the EFAs of the topology are the rails")
        ->excludes(provider);
    app.add_flag("--json", command.json, "print JSON instead of tables");
    app.add_flag("--attributes", command.attributes, "print every attribute of every rail");
    auto* const svg =
        app.add_option("--svg", command.svg, "also write a picture to this file")->type_name("FILE");
    app.add_option(
           "--live", command.live,
           "show rails and peers of running engines instead: the files or sockets that their settings "
           "stats_file and stats_socket name")
        ->type_name("FILE")
        ->excludes(svg);
    app.add_option("--interval", command.interval,
                   "with --live, look twice, so many seconds apart, and show what was counted a second, and "
                   "the latencies of that time")
        ->check(number_range(0.1, 3600.0));
    CLI::App* const doctor = app.add_subcommand(
        "doctor",
        "Say what is wrong with this machine, or could be better, and what to do. Exit status: 0 well, 1 "
        "something could be better, 2 something does not work, 3 that could not be found out");
    doctor->fallthrough();  // options of the program may follow it
    doctor
        ->add_option("--root", command.root,
                     "directory below which to look for /proc, /sys, /dev, /run and /usr/lib, instead of /")
        ->type_name("DIR");
    doctor->callback([&command] { command.doctor = true; });
}

void write_file(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    if (!file)
        throw Error(Status::invalid_param,
                    "cannot write \"" + path + "\": check the directory and its rights");
}

/// What `read` makes of each; of what cannot be read it is told why.
template <class From, class Read>
std::vector<LiveFile> all_readable(const std::vector<From>& from, Read read) {
    std::vector<LiveFile> files;
    for (const From& one : from) {
        try {
            files.push_back(read(one));
        } catch (const Error& error) {
            std::fprintf(stderr, "railyard-info: %s\n", error.what());
        }
    }
    return files;
}

/// What has been told since: a file is written once a second, and what a socket says may be 0.2 s old.
LiveFile read_anew(const LiveFile& before) {
    using namespace std::chrono_literals;
    const auto end = std::chrono::steady_clock::now() + 2s;
    while (true) {
        LiveFile after = read_live_file(before.path);
        if (after.report.written_ms != before.report.written_ms || std::chrono::steady_clock::now() >= end)
            return after;
        std::this_thread::sleep_for(50ms);
    }
}

int show_live(const Command& command) {
    std::vector<LiveFile> files = all_readable(command.live, read_live_file);
    if (command.interval > 0 && !files.empty()) {
        std::this_thread::sleep_for(std::chrono::duration<double>(command.interval));
        files = all_readable(files,
                             [](const LiveFile& before) { return rates_between(before, read_anew(before)); });
    }
    const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
    const auto now =
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count());
    if (!files.empty())
        std::fputs((command.json ? live_json(files, now) : live_text(files, now)).c_str(), stdout);
    return files.size() == command.live.size() ? 0 : 1;
}

/// The doctor would pass over them.
void refuse_for_doctor(const Command& command) {
    const std::pair<bool, const char*> others[] = {{command.attributes, "--attributes"},
                                                   {command.survey.offline, "--offline"},
                                                   {!command.svg.empty(), "--svg"},
                                                   {!command.live.empty(), "--live"},
                                                   {command.interval > 0, "--interval"}};
    for (const auto& [given, name] : others) {
        if (given)
            throw Error(Status::invalid_param, std::string(name) + ": not for doctor; leave one of them out");
    }
    std::error_code error;
    if (!command.root.empty() && !std::filesystem::is_directory(command.root, error))
        throw Error(Status::invalid_param,
                    "--root \"" + command.root +
                        "\" is no directory: name one with the proc, sys and dev of a machine in it");
}

int examine(const Command& command) {
    refuse_for_doctor(command);
    const Survey survey = make_survey(command.survey);
    std::vector<Finding> findings = diagnose(gather_facts(command.root, survey.machine), survey);
    const std::vector<Finding> control = check_control_interface(command.control_interface, survey.family);
    findings.insert(findings.begin(), control.begin(), control.end());
    const std::vector<Finding> unread = check_variables();
    findings.insert(findings.begin(), unread.begin(), unread.end());
    findings.insert(findings.begin(), command.settings.begin(), command.settings.end());
    std::fputs((command.json ? diagnosis_json(findings) : diagnosis_text(findings)).c_str(), stdout);
    switch (worst_of(findings)) {
        case Severity::ok:
        case Severity::note:
            return 0;
        case Severity::warning:
            return 1;
        case Severity::error:
            return 2;
    }
    return unknown_health;
}

/// What the command line leaves out is as the environment's settings have it. The doctor goes on without
/// what is refused.
void take_environment(const CLI::App& app, Command& command) {
    Params params;
    try {
        params = Params::parse({});
    } catch (const Error& error) {
        if (!command.doctor) throw;
        command.settings = {{Severity::error, "settings", error.what(),
                             "correct the variable, or unset it: no engine starts with it; what follows is "
                             "without the environment's settings"}};
        return;
    }
    if (command.doctor) {
        command.settings = take_out_refused(params);
        command.control_interface = params.oob_interface;
    }
    apply_log_level(params);
    SurveyOptions& survey = command.survey;
    if (app.count("--provider") == 0) survey.provider = params.provider;
    if (app.count("--devices") == 0) survey.devices = params.devices;
    if (app.count("--xml") == 0) survey.xml = params.topology_file;
    if (app.count("--max-bw-per-dram-seg") == 0)
        survey.max_host_gbps = static_cast<double>(params.max_bw_per_dram_seg);
    survey.rails = params.rails;
    survey.rails_per_device = params.rails_per_device;
    survey.gpu_devices = params.gpu_devices;
    survey.stage_always = params.vram_staging == "always";
}

int run(const Command& command) {
    if (command.doctor) return examine(command);
    if (!command.live.empty()) return show_live(command);
    const Survey survey = make_survey(command.survey);
    if (!command.svg.empty()) write_file(command.svg, picture(survey));
    const std::string report = command.json ? json_report(survey) : text_report(survey, command.attributes);
    std::fputs(report.c_str(), stdout);
    if (survey.trouble.empty()) return 0;
    std::fprintf(stderr, "railyard-info: no rails: %s\n", survey.trouble.c_str());
    return 1;
}

/// The exit status.
int refuse(const CLI::App& app, const std::string& why) {
    std::fprintf(stderr, "railyard-info: %s; see --help\n", why.c_str());
    return app.got_subcommand("doctor") ? unknown_health : usage_error;
}

int parse_and_run(CLI::App& app, Command& command, int argc, char** argv) {
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& asked) {  // --help and --version
        return app.exit(asked);
    } catch (const CLI::ExtrasError&) {
        return refuse(app, unexpected(app));
    } catch (const CLI::ParseError& error) {
        return refuse(app, in_our_words(error.what()));
    }
    if (command.interval > 0 && command.live.empty() && !command.doctor)
        return refuse(app, "--interval is for --live: name files or sockets of running engines, too");
    take_environment(app, command);
    if (!command.doctor) warn_of_unknown_variables();  // else a finding
    return run(command);
}

}  // namespace
}  // namespace railyard::tools

int main(int argc, char** argv) {
    using namespace railyard;
    guard_standard_files();
    tools::Command command;
    CLI::App app(
        "What Railyard finds on a machine: rails, GPUs, NUMA nodes, and who serves whom. Exit status: 0 "
        "there are rails, 1 there are none or something failed, 2 usage.",
        "railyard-info");
    try {
        tools::declare(app, command);
        const int status = tools::parse_and_run(app, command, argc, argv);
        return with_output_written("railyard-info", status, command.doctor ? tools::unknown_health : 1);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "railyard-info: %s\n", error.what());
        return command.doctor ? tools::unknown_health : 1;
    }
}
