#include "fabric/peer_process.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <exception>
#include <fstream>
#include <string>

#include "common/log.h"

namespace railyard::fabric {
namespace {

constexpr std::string_view scheme = "fi_shm://";

bool has_mapped(int process, std::string_view memory) {
    std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
    for (std::string line; std::getline(maps, line);) {
        const std::size_t at = line.find(memory);
        if (at == std::string::npos) continue;
        const std::size_t end = at + memory.size();
        if (end == line.size() || line[end] == ' ') return true;
    }
    return false;
}

}  // namespace

std::string_view shared_memory_of(std::string_view address) noexcept {
    if (address.substr(0, scheme.size()) != scheme) return {};
    address.remove_prefix(scheme.size());
    return address.substr(0, address.find('\0'));
}

int process_of(std::string_view address) noexcept {
    const std::string_view memory = shared_memory_of(address);
    int process = 0;
    const auto parsed = std::from_chars(memory.data(), memory.data() + memory.size(), process);
    return parsed.ec == std::errc{} && process > 0 ? process : 0;
}

PeerProcess::PeerProcess(std::string_view address) noexcept {
    const int process = process_of(address);
    ours_ = process == getpid();
    if (process == 0 || ours_) return;
    try {
        const auto pidfd = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
        if (pidfd >= 0 && has_mapped(process, "/dev/shm/" + std::string(shared_memory_of(address)))) {
            pidfd_ = pidfd;
            return;
        }
        if (pidfd >= 0) close(pidfd);
        RAILYARD_LOG(info, "shm", "process %d of a peer cannot be watched: its end will not be seen",
                     process);
    } catch (const std::exception&) {
    }
}

PeerProcess::~PeerProcess() {
    if (pidfd_ >= 0) close(pidfd_);
}

bool PeerProcess::ended() const noexcept {
    pollfd end{pidfd_, POLLIN, 0};
    return pidfd_ >= 0 && poll(&end, 1, 0) == 1;
}

}  // namespace railyard::fabric
