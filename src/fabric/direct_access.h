// How bytes get into the memory of a peer process on this host.
#pragma once

#include <string>
#include <string_view>

namespace railyard::fabric {

/// Whether the kernel lets us reach into the memory of the process that has the shm endpoint of that address
/// ("fi_shm://PID..."). False for anything else, for a process that is gone or of another PID namespace,
/// where the kernel forbids it (another user, kernel.yama.ptrace_scope, seccomp), and for want of a
/// descriptor.
[[nodiscard]] bool may_access_process_of(std::string_view address) noexcept;

/// To be asked before libfabric is told of the endpoint `theirs` beside `ours`: true when it may copy from
/// process to process. Otherwise it is kept from that, as it would go by the number of the process, which is
/// another one's as well in another PID namespace, and change the memory of that. Throws Error{not_supported}
/// where it cannot be kept from it, Error{backend} for want of descriptors or memory.
[[nodiscard]] bool lets_copy_directly(const std::string& ours, const std::string& theirs);

/// After that: libfabric does so. It may have been told by a peer that it cannot.
[[nodiscard]] bool copies_directly(const std::string& ours);

}  // namespace railyard::fabric
