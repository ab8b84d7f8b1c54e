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
#include "fabric/shm_names.h"

namespace railyard::fabric {
namespace {

constexpr std::string_view scheme = "fi_shm://";

/// Throws where the error says that we are short of something.
void require_no_want(int error) {
    if (error == EMFILE || error == ENFILE || error == ENOMEM)
        throw std::system_error(error, std::generic_category());
}

/// Of another PID namespace, as seen from a process that has kept the /proc of the one that it came from.
bool proc_is_ours() {
    char self[16];
    const ssize_t length = readlink("/proc/self", self, sizeof self);
    return length > 0 && std::string_view(self, static_cast<std::size_t>(length)) == std::to_string(getpid());
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

Seen process_behind(std::string_view address) {
    const int process = process_of(address);
    if (process == 0) return Seen::unknown;
    if (is_of_this_process(address)) return Seen::here;
    // Has it mapped, perhaps, as that of a peer.
    if (process == getpid()) return Seen::elsewhere;
    const std::string memory = "/dev/shm/" + std::string(shared_memory_of(address));
    errno = 0;
    std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
    if (!maps.is_open()) {
        require_no_want(errno);
        return errno == ENOENT && proc_is_ours() ? Seen::elsewhere : Seen::unknown;
    }
    for (std::string line; std::getline(maps, line);) {
        const std::size_t at = line.find(memory);
        if (at == std::string::npos) continue;
        const std::size_t end = at + memory.size();
        if (end == line.size() || line[end] == ' ') return Seen::here;
    }
    if (maps.bad()) require_no_want(ENOMEM);
    return proc_is_ours() ? Seen::elsewhere : Seen::unknown;
}

void PeerProcess::look(std::string_view address) noexcept {
    const int process = process_of(address);
    const bool again = std::exchange(put_off_, false);
    if (process == 0) return;
    try {
        ours_ = is_of_this_process(address);
        if (ours_) return;
        Descriptor pidfd(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
        if (pidfd.get() < 0) require_no_want(errno);
        if (pidfd.get() >= 0 && process_behind(address) == Seen::here) {
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
