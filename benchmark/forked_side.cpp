#include "forked_side.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "failure.h"

namespace railyard::bench::detail {

SocketPair::SocketPair() {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_) != 0)
        throw Failure(std::string("cannot create a socket pair: ") + std::strerror(errno));
}

SocketPair::~SocketPair() {
    for (const int end : ends_) {
        if (end >= 0) close(end);
    }
}

host::Channel SocketPair::take(bool is_child) {
    close(std::exchange(ends_[is_child ? 0 : 1], -1));
    return host::Channel(std::exchange(ends_[is_child ? 1 : 0], -1));
}

}  // namespace railyard::bench::detail
