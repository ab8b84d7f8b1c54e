// Where host memory lies.
#pragma once

#include <cstddef>
#include <vector>

namespace railyard::topology {

/// The kernel's calls, replaceable so that tests can have a kernel that refuses or a machine with more nodes.
/// As the system calls: 0, or a negative errno.
struct MemoryCalls {
    /// Node of each of `count` pages into `status`, or a negative errno there (ENOENT: nothing there yet).
    int (*page_nodes)(std::size_t count, void** pages, int* status) noexcept;
    /// Node of the CPU that runs this thread.
    int (*current_node)(unsigned* node) noexcept;
    /// Nodes that the policy of the memory at `address` names or, where that has none of its own, the calling
    /// thread's, ascending; none for the default policy.
    int (*policy_nodes)(void* address, std::vector<int>* nodes);
    /// Nodes that the calling thread may have memory of (cpuset.mems), ascending.
    int (*allowed_nodes)(std::vector<int>* nodes);
};
[[nodiscard]] const MemoryCalls& kernel_memory_calls() noexcept;

/// NUMA nodes of [address, address + length), ascending: of up to 64 pages spread over the whole range, the
/// first and the last among them. Pages that nobody has touched count where they would land: on the nodes of
/// their policy, else on those of the calling thread's, else on that of its CPU or, where that is none that
/// the thread may use, on those that it may, because registering them touches them from here. Empty: the
/// kernel refuses to tell, as in containers that forbid these calls. Neither touches the memory nor blocks.
[[nodiscard]] std::vector<int> memory_nodes(const void* address, std::size_t length,
                                            const MemoryCalls& calls = kernel_memory_calls());

}  // namespace railyard::topology
