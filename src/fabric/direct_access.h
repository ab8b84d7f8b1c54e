// Whether the kernel lets us reach into the memory of a peer process on this host.
#pragma once

#include <string_view>

namespace railyard::fabric {

/// `address` is what a shm endpoint calls itself ("fi_shm://PID..."). False for anything else, for a process
/// that is gone, and where the kernel forbids it (another user, kernel.yama.ptrace_scope, seccomp).
[[nodiscard]] bool may_access_process_of(std::string_view address) noexcept;

}  // namespace railyard::fabric
