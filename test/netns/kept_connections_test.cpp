// Connections that peers have made to us: the network is not to forget them while they are idle.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>

#include "net_faults.h"

namespace railyard::test {
namespace {

int option_of(int socket, int level, int option) {
    int value = 0;
    socklen_t length = sizeof(value);
    return getsockopt(socket, level, option, &value, &length) == 0 ? value : 0;
}

/// Raw, as the kernel has it.
std::string own_address(int socket) {
    sockaddr_storage bound{};
    socklen_t length = sizeof(bound);
    if (getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &length) != 0) return {};
    return {reinterpret_cast<const char*>(&bound), length};
}

/// Of connections that peers have made to this process: seconds of silence after which the kernel asks
/// whether the other end is there; 0: never.
std::vector<int> idle_times() {
    std::vector<std::string> listening;
    std::vector<int> sockets, times;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
        sockets.push_back(std::stoi(entry.path().filename().string()));
    for (const int socket : sockets)
        if (option_of(socket, SOL_SOCKET, SO_ACCEPTCONN)) listening.push_back(own_address(socket));
    for (const int socket : sockets) {
        sockaddr_storage peer{};
        socklen_t length = sizeof(peer);
        if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length) != 0) continue;
        if (std::find(listening.begin(), listening.end(), own_address(socket)) == listening.end()) continue;
        const bool asks = option_of(socket, SOL_SOCKET, SO_KEEPALIVE) != 0;
        times.push_back(asks ? option_of(socket, IPPROTO_TCP, TCP_KEEPIDLE) : 0);
    }
    return times;
}

using KeptConnections = NetFaults;

/// Well before the first networks forget them.
TEST_F(KeptConnections, AreAskedByTheKernelOnceTheyAreIdle) {
    start("e1", false, {}, 2);
    const auto b = peer("b", 2);
    b->process->load("alpha", engine_->connection_info());
    Transfer* const small = b->prepare(Operation::write, 64, 0, "before");
    EXPECT_TRUE(until([&] { return run(*small) != Status::ok || !idle_times().empty(); })) << "none";
    for (const int seconds : idle_times())
        EXPECT_EQ(seconds, 60);
}

}  // namespace
}  // namespace railyard::test
