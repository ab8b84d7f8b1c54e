#include "shared/process_identity.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace simefa {
namespace {

struct ProcessState {
    char letter = 'X';
    std::uint64_t start_time = 0;  ///< clock ticks; 0 for a process that is no more
};

/// Fields 3 and 22 of /proc/PID/stat.
ProcessState look_at(int pid) noexcept {
    char path[32], text[1024];
    std::snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return {};
    const ssize_t length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0) return {};
    text[length] = '\0';
    // The name, field 2, may hold anything, so count from the last parenthesis.
    const char* at = std::strrchr(text, ')');
    if (!at || at[1] == '\0') return {};
    at += 2;
    const char letter = *at;
    if (letter == 'Z' || letter == 'X') return {};
    for (int field = 3; field < 22; ++field) {
        at = std::strchr(at, ' ');
        if (!at) return {};
        ++at;
    }
    return {letter, std::strtoull(at, nullptr, 10)};
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
    identity = pack(pid, look_at(pid).start_time);
    known.store(identity, std::memory_order_relaxed);
    return identity;
}

bool is_alive(ProcessIdentity identity) noexcept {
    if (identity == 0) return false;
    if (identity == this_process()) return true;
    const int pid = process_id_of(identity);
    const std::uint64_t start = look_at(pid).start_time;
    return start != 0 && pack(pid, start) == identity;
}

bool is_stopped(ProcessIdentity identity) noexcept {
    const int pid = process_id_of(identity);
    const ProcessState state = look_at(pid);
    return state.letter == 'T' && pack(pid, state.start_time) == identity;
}

}  // namespace simefa
