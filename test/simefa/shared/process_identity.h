// Which process is meant, across the reuse of process ids.
#pragma once

#include <cstdint>

namespace simefa {

/// Process id in the upper half, low bits of its start time (clock ticks since boot) in the lower one; 0:
/// nobody.
using ProcessIdentity = std::uint64_t;

[[nodiscard]] constexpr int process_id_of(ProcessIdentity identity) noexcept {
    return static_cast<int>(identity >> 32);
}

/// The calling process. After fork() the child gets its own.
[[nodiscard]] ProcessIdentity this_process() noexcept;

/// False when the process has ended, a zombie included, or its id belongs to another one by now.
/// Reads a file under /proc: some microseconds.
[[nodiscard]] bool is_alive(ProcessIdentity identity) noexcept;
/// True while a signal has stopped that process (SIGSTOP). Costs as much.
[[nodiscard]] bool is_stopped(ProcessIdentity identity) noexcept;

}  // namespace simefa
