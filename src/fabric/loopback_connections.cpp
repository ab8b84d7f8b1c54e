#include "fabric/loopback_connections.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <string_view>

#include "fabric/sockets.h"

namespace railyard::fabric {
namespace {

void unpace(const std::vector<int>& sockets) noexcept {
    constexpr std::string_view control = "reno";
    for (const int socket : sockets)
        setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, control.data(), control.size());
}

}  // namespace

LoopbackConnections::LoopbackConnections(bool stays_on_host, const std::string& name)
    : stays_on_host_(stays_on_host) {
    if (stays_on_host) unpace(sockets_at(name));
}

void LoopbackConnections::look(const std::vector<std::string>& peers, std::uint64_t carried) {
    next_ = carried + (bytes_between << (most_looks - looks_));
    --looks_;
    unpace(sockets_to(peers));
}

}  // namespace railyard::fabric
