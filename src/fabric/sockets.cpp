#include "fabric/sockets.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>

namespace railyard::fabric {
namespace {

enum class Compared : std::uint8_t { host, host_and_port };

bool same_address(const sockaddr_storage& one, const std::string& other, Compared what) {
    const bool any_port = what == Compared::host;
    if (one.ss_family == AF_INET && other.size() >= sizeof(sockaddr_in)) {
        sockaddr_in a{}, b{};
        std::memcpy(&a, &one, sizeof(a));
        std::memcpy(&b, other.data(), sizeof(b));
        return a.sin_family == b.sin_family && (any_port || a.sin_port == b.sin_port) &&
               a.sin_addr.s_addr == b.sin_addr.s_addr;
    }
    if (one.ss_family == AF_INET6 && other.size() >= sizeof(sockaddr_in6)) {
        sockaddr_in6 a{}, b{};
        std::memcpy(&a, &one, sizeof(a));
        std::memcpy(&b, other.data(), sizeof(b));
        return a.sin6_family == b.sin6_family && (any_port || a.sin6_port == b.sin6_port) &&
               std::memcmp(&a.sin6_addr, &b.sin6_addr, sizeof(a.sin6_addr)) == 0;
    }
    return false;
}

/// No file has a higher number, but where the limit was lowered since, or is beyond fs.nr_open's default.
int end_of_files() noexcept {
    constexpr rlim_t least = 1 << 16, most = 1 << 20;
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    return static_cast<int>(std::clamp(limit.rlim_cur, least, most));
}

/// Those of the open files that `wanted` says yes to. By readdir(): the standard library's iterator ends the
/// program where it gets no memory. It takes a descriptor: where none is left, all numbers are asked instead.
template <class Wanted>
std::vector<int> files(const Wanted& wanted) {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc/self/fd"), closedir);
    std::vector<int> found;
    if (!directory) {
        for (int file = 0, end = end_of_files(); file < end; ++file)
            if (wanted(file)) found.push_back(file);
        return found;
    }
    while (const dirent* entry = readdir(directory.get())) {
        const std::string_view name = entry->d_name;
        int file = -1;
        std::from_chars(name.data(), name.data() + name.size(), file);
        if (file >= 0 && wanted(file)) found.push_back(file);
    }
    return found;
}

bool is_connected_to(int socket, const std::vector<std::string>& peers, Compared what) noexcept {
    sockaddr_storage peer{};
    socklen_t length = sizeof(peer);
    if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return false;
    return std::any_of(peers.begin(), peers.end(),
                       [&](const std::string& address) { return same_address(peer, address, what); });
}

}  // namespace

bool is_loopback(std::string_view address) noexcept {
    sockaddr_in ip4{};
    sockaddr_in6 ip6{};
    if (address.size() >= sizeof(ip4)) std::memcpy(&ip4, address.data(), sizeof(ip4));
    if (address.size() >= sizeof(ip6)) std::memcpy(&ip6, address.data(), sizeof(ip6));
    return (ip4.sin_family == AF_INET && ntohl(ip4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET) ||
           (ip6.sin6_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&ip6.sin6_addr));
}

bool leads_to(int socket, const std::vector<std::string>& peers) noexcept {
    return is_connected_to(socket, peers, Compared::host_and_port);
}

bool leads_to_host_of(int socket, const std::vector<std::string>& peers) noexcept {
    return is_connected_to(socket, peers, Compared::host);
}

std::vector<int> sockets_to(const std::vector<std::string>& peers) {
    return files([&](int file) { return leads_to(file, peers); });
}

std::vector<int> sockets_at(const std::string& own) {
    return files([&](int file) {
        sockaddr_storage bound{};
        socklen_t length = sizeof(bound);
        return getsockname(file, reinterpret_cast<sockaddr*>(&bound), &length) == 0 &&
               same_address(bound, own, Compared::host_and_port);
    });
}

bool keep_alive(const std::string& own) {
    constexpr int yes = 1, idle_s = 60, pause_s = 10, questions = 90;
    const auto set = [](int socket, int level, int option, int value) {
        return setsockopt(socket, level, option, &value, sizeof(value)) == 0;
    };
    bool done = false;
    for (const int socket : sockets_at(own)) {
        int listens = 0;
        socklen_t length = sizeof(listens);
        if (getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || !listens) continue;
        done = set(socket, IPPROTO_TCP, TCP_KEEPIDLE, idle_s) &&
               set(socket, IPPROTO_TCP, TCP_KEEPINTVL, pause_s) &&
               set(socket, IPPROTO_TCP, TCP_KEEPCNT, questions) && set(socket, SOL_SOCKET, SO_KEEPALIVE, yes);
    }
    return done;
}

bool send_in_vain(const std::vector<std::string>& peers, std::uint64_t silence_ns) {
    bool in_vain = false;
    for (const int socket : sockets_to(peers)) {
        tcp_info info{};
        socklen_t length = sizeof(info);
        if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) continue;
        if (std::uint64_t{info.tcpi_last_ack_recv} * 1'000'000 < silence_ns) return false;
        in_vain = in_vain || info.tcpi_retransmits != 0 || info.tcpi_probes != 0;
    }
    return in_vain;
}

}  // namespace railyard::fabric
