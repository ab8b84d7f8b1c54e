#include "shared/process_identity.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace simefa {
namespace {

/// Start time in clock ticks (field 22 of /proc/PID/stat); 0 for a process that is no more.
std::uint64_t start_time(int pid) noexcept {
    char path[32], text[1024];
    std::snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0) return 0;
    text[length] = '\0';
    // The name, field 2, may hold anything, so count from the last parenthesis.
    const char* at = std::strrchr(text, ')');
    if (!at || at[1] == '\0') return 0;
    at += 2;
    if (*at == 'Z' || *at == 'X') return 0;
    for (int field = 3; field < 22; ++field) {
        at = std::strchr(at, ' ');
        if (!at) return 0;
        ++at;
    }
    return std::strtoull(at, nullptr, 10);
}

ProcessIdentity pack(int pid, std::uint64_t start) noexcept {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(pid)) << 32 |
           static_cast<std::uint32_t>(start);
}

}  // namespace

ProcessIdentity this_process() noexcept {
    static std::atomic<ProcessIdentity> known{0};
    const int pid = getpid();
    ProcessIdentity identity = known.load(std::memory_order_relaxed);
    if (process_id_of(identity) == pid) return identity;
    identity = pack(pid, start_time(pid));
    known.store(identity, std::memory_order_relaxed);
    return identity;
}

bool is_alive(ProcessIdentity identity) noexcept {
    if (identity == 0) return false;
    if (identity == this_process()) return true;
    const int pid = process_id_of(identity);
    const std::uint64_t start = start_time(pid);
    return start != 0 && pack(pid, start) == identity;
}

}  // namespace simefa
