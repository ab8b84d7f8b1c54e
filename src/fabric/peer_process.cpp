#include "fabric/peer_process.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <exception>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "common/descriptor.h"
#include "common/log.h"

namespace railyard::fabric {
namespace {

constexpr std::string_view scheme = "fi_shm://";

/// Throws where the error says that we are short of something.
void require_no_want(int error) {
    if (error == EMFILE || error == ENFILE || error == ENOMEM)
        throw std::system_error(error, std::generic_category());
}

/// Throws where we are short of what it takes to look.
bool has_mapped(int process, std::string_view memory) {
    errno = 0;
    std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
    if (!maps.is_open()) require_no_want(errno);
    for (std::string line; std::getline(maps, line);) {
        const std::size_t at = line.find(memory);
        if (at == std::string::npos) continue;
        const std::size_t end = at + memory.size();
        if (end == line.size() || line[end] == ' ') return true;
    }
    if (maps.bad()) require_no_want(ENOMEM);
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

void PeerProcess::look(std::string_view address) noexcept {
    const int process = process_of(address);
    ours_ = process == getpid();
    const bool again = std::exchange(put_off_, false);
    if (process == 0 || ours_) return;
    try {
        Descriptor pidfd(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
        if (pidfd.get() < 0) require_no_want(errno);
        if (pidfd.get() >= 0 && has_mapped(process, "/dev/shm/" + std::string(shared_memory_of(address)))) {
            pidfd_ = pidfd.release();
            if (again) RAILYARD_LOG(info, "shm", "process %d of a peer is watched now", process);
            return;
        }
        RAILYARD_LOG(info, "shm", "process %d of a peer cannot be watched: its end will not be seen",
                     process);
    } catch (const std::exception& error) {
        put_off_ = true;
        if (again) return;
        RAILYARD_LOG(warn, "shm", "process %d of a peer cannot be watched yet, tried again later: %s",
                     process, error.what());
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
