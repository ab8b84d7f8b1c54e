#include "fabric/accepted_connections.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "common/descriptor.h"
#include "fabric/sockets.h"

namespace railyard::fabric {
namespace {

constexpr std::uint64_t next_to_nothing = 64 << 10;

ino_t inode_of(int file) noexcept {
    struct stat known {};
    return fstat(file, &known) == 0 ? known.st_ino : 0;
}

tcp_info info_of(int socket) noexcept {
    tcp_info info{};
    socklen_t size = sizeof(info);
    getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size);
    return info;
}

bool is_sending(int socket) noexcept {
    int unacknowledged = 0;
    return ioctl(socket, SIOCOUTQ, &unacknowledged) != 0 || unacknowledged != 0;
}

}  // namespace

AcceptedConnections::AcceptedConnections(const std::vector<std::string>& own,
                                         const std::vector<std::string>& peers) {
    for (const std::string& endpoint : own) {
        for (const int socket : sockets_at(endpoint)) {
            if (!leads_to_host_of(socket, peers)) continue;
            const tcp_info info = info_of(socket);
            connections_.push_back(
                {socket, inode_of(socket), info.tcpi_bytes_received, info.tcpi_bytes_acked});
        }
    }
}

/// One that has ended is still read to its end, before it is closed.
bool AcceptedConnections::may_go_on(const Connection& then) noexcept {
    const tcp_info now = info_of(then.socket);
    const bool sending = is_sending(then.socket);
    if (inode_of(then.socket) != then.inode) return false;
    const bool has_received = now.tcpi_bytes_received - then.received >= most_under_way;
    const bool has_sent = !sending || now.tcpi_bytes_acked - then.sent >= most_under_way;
    return !has_received || !has_sent;
}

bool AcceptedConnections::are_through() noexcept {
    std::erase_if(connections_, [](const Connection& then) { return !may_go_on(then); });
    return connections_.empty();
}

/// By a number of our own, which nobody gives to another file meanwhile.
void AcceptedConnections::end_one(Which which) noexcept {
    Connection* chosen = nullptr;
    for (Connection& connection : connections_) {
        const tcp_info now = info_of(connection.socket);
        const std::uint64_t carried = now.tcpi_bytes_received + now.tcpi_bytes_acked;
        const std::uint64_t before = std::exchange(connection.seen, carried);
        const bool idle = before != unseen && carried - before <= next_to_nothing;
        if (!chosen && (idle || which == Which::any)) chosen = &connection;
    }
    if (!chosen) return;
    const Descriptor ours(fcntl(chosen->socket, F_DUPFD_CLOEXEC, 0));
    if (inode_of(ours.get()) == chosen->inode) shutdown(ours.get(), SHUT_RDWR);
    std::rotate(connections_.begin(), connections_.begin() + (chosen - connections_.data()) + 1,
                connections_.end());
}

}  // namespace railyard::fabric
