#include "fabric/unsent_bytes.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace railyard::fabric {
namespace {

bool same_address(const sockaddr_storage& one, const std::string& other) {
    if (one.ss_family == AF_INET && other.size() >= sizeof(sockaddr_in)) {
        sockaddr_in a{}, b{};
        std::memcpy(&a, &one, sizeof(a));
        std::memcpy(&b, other.data(), sizeof(b));
        return a.sin_family == b.sin_family && a.sin_port == b.sin_port &&
               a.sin_addr.s_addr == b.sin_addr.s_addr;
    }
    if (one.ss_family == AF_INET6 && other.size() >= sizeof(sockaddr_in6)) {
        sockaddr_in6 a{}, b{};
        std::memcpy(&a, &one, sizeof(a));
        std::memcpy(&b, other.data(), sizeof(b));
        return a.sin6_family == b.sin6_family && a.sin6_port == b.sin6_port &&
               std::memcmp(&a.sin6_addr, &b.sin6_addr, sizeof(a.sin6_addr)) == 0;
    }
    return false;
}

bool leads_to(int socket, const std::vector<std::string>& peers) {
    sockaddr_storage peer{};
    socklen_t length = sizeof(peer);
    if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return false;
    return std::any_of(peers.begin(), peers.end(),
                       [&](const std::string& address) { return same_address(peer, address); });
}

void reset_when_closed(int socket, bool reset) noexcept {
    const linger value{reset ? 1 : 0, 0};
    setsockopt(socket, SOL_SOCKET, SO_LINGER, &value, sizeof(value));
}

}  // namespace

UnsentBytesDropped::UnsentBytesDropped(std::vector<std::string> peers) : peers_(std::move(peers)) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
        const std::string name = entry.path().filename().string();
        int socket = -1;
        std::from_chars(name.data(), name.data() + name.size(), socket);
        if (socket < 0 || !leads_to(socket, peers_)) continue;
        sockets_.push_back(socket);
        reset_when_closed(socket, true);
    }
}

UnsentBytesDropped::~UnsentBytesDropped() {
    for (const int socket : sockets_) {
        if (leads_to(socket, peers_)) reset_when_closed(socket, false);
    }
}

}  // namespace railyard::fabric
