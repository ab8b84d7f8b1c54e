// Tells a process from its forked children, without a system call.
#pragma once

#include <atomic>
#include <cstdint>

namespace railyard {

namespace detail {
extern std::atomic<std::uint32_t> forks;
}

/// Makes fork_generation() count from here on; any number of times. Throws Error{backend}.
void watch_forks();

/// Another value in each child of fork() than in its parent. vfork() and bare clone() are not seen. Any
/// thread.
[[nodiscard]] inline std::uint32_t fork_generation() noexcept {
    return detail::forks.load(std::memory_order_relaxed);
}

/// Keeps what a child has inherited and must not destroy, so that it is no leak. Any thread.
void leave_to_parent(void* inherited) noexcept;

}  // namespace railyard
