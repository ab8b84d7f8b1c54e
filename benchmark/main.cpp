// railyard-bench: measures and verifies transfers between processes through a NIXL backend plugin.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "common/output.h"
#include "common/status.h"
#include "control.h"
#include "failure.h"
#include "forked_side.h"
#include "group/launcher.h"
#include "host_port.h"
#include "lobby.h"
#include "options.h"
#include "report.h"
#include "runner.h"
#include "target.h"
#include "watchdog.h"
#include "workload.h"

namespace railyard::bench {

namespace {

using namespace std::chrono_literals;

/// `reach` gives the connection to the target. The report comes first: a target that is not there is told of
/// in it.
template <class Reach>
int run_here(const Options& options, const std::vector<Point>& points, const Reach& reach) {
    Report report(options, points.size());
    std::optional<Control> target;
    try {
        target.emplace(reach());
    } catch (const Failure& failure) {
        report.finish(failure.what());
        return 1;
    }
    run_initiator(options, points, std::move(*target), report);
    return report.all_right() ? 0 : 1;
}

int run_both(const Options& options, const std::vector<Point>& points) {
    std::fflush(nullptr);
    ForkedSide target("the target");  // before any thread, before libfabric
    if (target.child.is_child()) {
        for (const auto& [name, value] : options.target_environment)
            setenv(name.c_str(), value.c_str(), 1);
        return run_target(options, std::move(target.control));
    }
    int status = run_here(options, points, [&] { return std::move(target.control); });
    bool target_fine = target.child.join(options.timeout + 5s, status == 0);
    return status == 0 && !target_fine ? 1 : status;
}

int run_listening(const Options& options) {
    host::Listener listener(options.peer_host, options.peer_port);
    const std::string place = join_host_port(options.peer_host, listener.port());
    std::fprintf(stderr, "railyard-bench: target: listening on %s\n", place.c_str());
    return run_target(options, await_initiator(listener, place, options.timeout));
}

Control dial_target(const Options& options) {
    const std::string place = join_host_port(options.peer_host, options.peer_port);
    try {
        return Control(host::Channel::connect(options.peer_host, options.peer_port, options.timeout),
                       "the target at " + place);
    } catch (const Error& error) {
        throw Failure("no target at " + place + ": " + error.what() +
                      "; start it there with --role target, and see that nothing between filters the port");
    }
}

int run(const Options& options) {
    if (options.is_group()) return run_group(options);
    if (options.role == Role::target) return run_listening(options);
    const std::vector<Point> points = make_points(options);
    if (options.role == Role::both) return run_both(options, points);
    return run_here(options, points, [&] { return dial_target(options); });
}

}  // namespace

}  // namespace railyard::bench

int main(int argc, char** argv) {
    using namespace railyard::bench;
    railyard::guard_standard_files();
    ParsedOptions parsed = parse_options(argc, argv);
    if (!parsed.options) {
        std::fputs(parsed.text.c_str(), parsed.exit_status == 0 ? stdout : stderr);
        return railyard::with_output_written("railyard-bench", parsed.exit_status);
    }
    std::fputs(parsed.text.c_str(), stderr);
    try {
        return railyard::with_output_written("railyard-bench", run(*parsed.options));
    } catch (const std::invalid_argument& error) {
        std::fprintf(stderr, "railyard-bench: %s\n", error.what());
        return 2;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "railyard-bench: %s\n", error.what());
        return 1;
    }
}
