#include "group/launcher.h"

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

#include "child_process.h"
#include "group/group_report.h"
#include "group/group_runner.h"
#include "group/socket_rendezvous.h"

namespace railyard::bench {

namespace {

using namespace std::chrono_literals;

constexpr const char* loopback = "127.0.0.1";

/// "target-{rank}" -> "target-3".
std::string with_rank(std::string text, unsigned rank) {
    static const std::string mark = "{rank}";
    for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos;)
        text.replace(at, mark.size(), std::to_string(rank));
    return text;
}

/// Each process has connections to many others, rank 0 to all of them.
void raise_limit_of_descriptors() noexcept {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/// What `meets` returns. Where it ends instead, whoever may be rank 0 leaves a report of that, as of any end.
template <class Meet>
std::unique_ptr<Rendezvous> met(const Options& options, Meet&& meets) {
    try {
        return meets();
    } catch (const std::exception& failure) {
        if (options.group.rank.value_or(0) == 0) GroupReport(options, {}).finish(failure.what());
        throw;
    }
}

int run_child(const Options& options, const std::vector<Point>& points, unsigned rank, std::uint16_t port) {
    for (const auto& [name, value] : options.target_environment)
        setenv(name.c_str(), with_rank(value, rank).c_str(), 1);
    Control control(host::Channel::connect(loopback, port, options.timeout));
    SocketRendezvous rendezvous(std::move(control), options.group.world, rank, options.timeout);
    return run_member(options, points, rendezvous);
}

int fork_group(const Options& options, const std::vector<Point>& points) {
    host::Listener listener(loopback, 0);
    std::fflush(nullptr);
    std::vector<std::unique_ptr<ChildProcess>> children;
    for (unsigned rank = 1; rank < options.group.world; ++rank) {
        children.push_back(std::make_unique<ChildProcess>("rank " + std::to_string(rank)));
        if (!children.back()->is_child()) continue;
        for (auto& child : children)
            child->disown();
        const std::uint16_t port = listener.port();
        { const host::Listener of_rank_0 = std::move(listener); }
        return run_child(options, points, rank, port);
    }
    int status = 0;
    {
        const std::unique_ptr<Rendezvous> rendezvous = met(options, [&] {
            return std::make_unique<SocketRendezvous>(std::move(listener), options.group.world,
                                                      options.timeout);
        });
        status = run_member(options, points, *rendezvous);
    }
    for (auto& child : children) {
        if (!child->join(options.timeout + 35s, status == 0)) status = 1;
    }
    return status;
}

}  // namespace

int run_group(const Options& options) {
    const std::vector<Point> points = make_group_points(options);
    raise_limit_of_descriptors();
    if (!options.group.rendezvous) return fork_group(options, points);
    const std::unique_ptr<Rendezvous> rendezvous =
        met(options, [&] { return meet(options.group, options.timeout); });
    return run_member(options, points, *rendezvous);
}

}  // namespace railyard::bench
