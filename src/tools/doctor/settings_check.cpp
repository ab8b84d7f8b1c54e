#include "tools/doctor/settings_check.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/status.h"
#include "common/variables.h"
#include "engine/stats_file.h"
#include "engine/stats_socket.h"
#include "fabric/info.h"
#include "manager/gpus.h"
#include "topology/hwloc_tree.h"

namespace railyard::tools {
namespace {

/// The shortest name of an agent: with any other a socket's path is no shorter.
constexpr const char* some_agent = "a";

/// Whether `use` takes what the variable says; else that is a finding.
template <class Use>
bool is_taken(std::vector<Finding>& findings, const std::string& variable, Use use) {
    try {
        use();
        return true;
    } catch (const Error& error) {
        const bool of_driver = error.status() == Status::backend && variable == "RAILYARD_GPU_DEVICES";
        findings.push_back({Severity::error, "settings",
                            (of_driver ? "the CUDA driver: " : variable + ": ") + error.what(),
                            of_driver ? "repair it, or set RAILYARD_GPU_DEVICES=none: no engine starts before"
                                      : "correct the variable, or unset it: no engine starts with it"});
        return false;
    }
}

/// Engines start without the file, and try again each second.
void check_stats_file(std::vector<Finding>& findings, const std::string& pattern) {
    std::string path;
    const bool taken = is_taken(findings, "RAILYARD_STATS_FILE",
                                [&] { path = StatsFile::absolute(StatsFile::name(pattern, some_agent, 0)); });
    const std::string directory = std::filesystem::path(path).parent_path().string();
    if (!taken || faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return;
    const int error = errno;
    findings.push_back({Severity::warning, "settings",
                        "RAILYARD_STATS_FILE: " + path + " cannot be written: " + std::strerror(error),
                        "make its directory, for whoever runs the engine to write in: it goes on without the "
                        "file"});
}

}  // namespace

std::vector<Finding> take_out_refused(Params& params) {
    std::vector<Finding> findings;
    if (!is_taken(findings, "RAILYARD_DEVICES",
                  [&] { static_cast<void>(fabric::parse_device_filter(params.devices)); }))
        params.devices.clear();
    // Without one, what HWLOC_XMLFILE names is another check's.
    if (!params.topology_file.empty() && !is_taken(findings, "RAILYARD_TOPOLOGY_FILE", [&] {
            static_cast<void>(topology::read_machine(params.topology_file));
        }))
        params.topology_file.clear();
    is_taken(findings, "RAILYARD_GPU_DEVICES", [&] { const Gpus gpus(params); });
    if (!params.stats_file.empty()) check_stats_file(findings, params.stats_file);
    if (!params.stats_socket.empty()) {
        is_taken(findings, "RAILYARD_STATS_SOCKET",
                 [&] { StatsSocket::check(params.stats_socket, some_agent); });
    }
    return findings;
}

std::vector<Finding> check_variables() {
    std::vector<Finding> findings;
    for (const UnreadVariable& variable : unread_variables()) {
        findings.push_back({Severity::warning, "settings",
                            variable.name + ": nothing reads it" + variable.guess,
                            "correct its name, or unset it: it has no effect"});
    }
    return findings;
}

std::vector<Finding> check_control_interface(const std::string& interface, const std::string& family) {
    std::vector<Finding> findings;
    if (!interface.empty() && family.starts_with("tcp")) {
        is_taken(findings, "RAILYARD_OOB_INTERFACE", [&] {
            static_cast<void>(fabric::discover(family, {{interface}, false}));
        });
    }
    return findings;
}

}  // namespace railyard::tools
