#include "rail/host_peer_rail.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/log.h"

namespace railyard {

void HostPeerRail::refuse(Submission& submission) noexcept {
    counters_.count_error(Status::backend);
    RAILYARD_LOG(debug, name().c_str(), "memory of process %d is not registered, or not there",
                 process_of(*submission.route).pid());
    submission.moved = 0;
    ++submission.run.begin;
    submission.lane->work->part_done(Status::backend);
}

void HostPeerRail::fail_path(const Route& route, int error) noexcept {
    if (route.path->fail())
        RAILYARD_LOG(info, name().c_str(), "process %d is reached no more: %s", process_of(route).pid(),
                     std::strerror(error));
}

void HostPeerRail::lose(Submission& submission, int error) noexcept {
    fail_path(*submission.route, error);
    if (error != ESRCH) return leave(submission);
    disconnect(submission);
}

void HostPeerRail::disconnect(Submission& submission) noexcept {
    counters_.count_error(Status::remote_disconnect);
    fail_rest(submission, Status::remote_disconnect);
}

void HostPeerRail::leave(Submission& submission) noexcept {
    const Run taken = std::exchange(submission.run, {});
    submission.moved = 0;
    if (!taken.empty() && !hand_on(submission, taken, this)) submission.run = taken;
    if (submission.run.empty() && hand_on(submission, {}, this)) {
        ++counters_.failovers;
        submission.route->path->count_failover();
    } else {
        disconnect(submission);
    }
}

}  // namespace railyard
