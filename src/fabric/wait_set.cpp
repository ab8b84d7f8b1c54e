#include "fabric/wait_set.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>

namespace railyard::fabric {
namespace {

int epoll_around(int one, int other) noexcept {
    const int both = epoll_create1(EPOLL_CLOEXEC);
    if (both < 0) return -1;
    for (const int fd : {one, other}) {
        epoll_event event{};
        event.events = EPOLLIN;
        if (epoll_ctl(both, EPOLL_CTL_ADD, fd, &event) == 0) continue;
        close(both);
        return -1;
    }
    return both;
}

}  // namespace

WaitSet::WaitSet(const Domain& domain, CompletionQueues& queues)
    : domain_(domain), queues_(queues), fd_(queues.received().wait_fd()) {
    if (fd_ < 0 || !(domain.caps().connected || queues.has_own_sent())) return;
    const int other = other_fd();
    fd_ = other >= 0 ? epoll_around(fd_, other) : -1;
    own_ = fd_ >= 0;
}

int WaitSet::other_fd() const noexcept {
    int events = -1;
    if (domain_.caps().connected)
        return fi_control(&domain_.event_queue()->fid, FI_GETWAIT, &events) == 0 ? events : -1;
    return queues_.own_sent() ? queues_.own_sent()->wait_fd() : -1;
}

/// The one before has left the set with its queue.
void WaitSet::watch_sent() noexcept {
    if (!own_ || !queues_.own_sent()) return;
    epoll_event event{};
    event.events = EPOLLIN;
    const int sent = queues_.own_sent()->wait_fd();
    watches_ = sent >= 0 && (epoll_ctl(fd_, EPOLL_CTL_ADD, sent, &event) == 0 || errno == EEXIST);
}

WaitSet::~WaitSet() {
    if (own_) close(fd_);
}

bool WaitSet::may_wait() noexcept {
    if (fd_ < 0 || !watches_) return false;
    fid* waited[] = {&queues_.received().get()->fid, nullptr};
    if (domain_.caps().connected) {
        waited[1] = &domain_.event_queue()->fid;
    } else if (queues_.own_sent()) {
        waited[1] = &queues_.own_sent()->get()->fid;
    }
    return fi_trywait(domain_.fabric(), waited, waited[1] ? 2 : 1) == FI_SUCCESS;
}

}  // namespace railyard::fabric
