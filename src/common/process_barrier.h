// A memory barrier on every thread of the process at once, for those that leave theirs out.
#pragma once

#include <atomic>

namespace railyard {

/// True where the kernel has such a barrier (membarrier(2)); asked once, and the process registered for it.
[[nodiscard]] bool has_process_barrier() noexcept;

/// Two threads that each write one word and then read the other's cannot both miss what the other wrote, when
/// one of them has light_barrier() in between, which costs nothing, and the other this: some microseconds,
/// and an interrupt for the threads that are running. After has_process_barrier() was true.
void process_barrier() noexcept;

inline void light_barrier() noexcept {
    std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace railyard
