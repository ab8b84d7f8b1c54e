#include "fabric/wait_set.h"

#include <sys/epoll.h>
#include <unistd.h>

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

WaitSet::WaitSet(const Domain& domain, CompletionQueue& queue)
    : domain_(domain), queue_(queue), fd_(queue.wait_fd()) {
    if (!domain.caps().connected || fd_ < 0) return;
    int events = -1;
    const bool both = fi_control(&domain.event_queue()->fid, FI_GETWAIT, &events) == 0;
    fd_ = both ? epoll_around(queue.wait_fd(), events) : -1;
    own_ = fd_ >= 0;
}

WaitSet::~WaitSet() {
    if (own_) close(fd_);
}

bool WaitSet::may_wait() noexcept {
    if (fd_ < 0) return false;
    fid* queues[] = {&queue_.get()->fid, &domain_.event_queue()->fid};
    return fi_trywait(domain_.fabric(), queues, own_ ? 2 : 1) == FI_SUCCESS;
}

}  // namespace railyard::fabric
