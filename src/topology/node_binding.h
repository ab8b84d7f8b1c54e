// Where new memory of a thread lands, for a scope.
#pragma once

#include <array>
#include <cstddef>

namespace railyard::topology {

/// A thread's memory policy, as the system calls have it: a mode and a set of nodes, one bit each.
struct MemoryPolicy {
    static constexpr std::size_t max_nodes = 1024;  // what kernels are built for at most
    int mode = 0;
    std::array<unsigned long, max_nodes / (8 * sizeof(unsigned long)) + 1> nodes{};
};

/// The kernel's calls, replaceable for tests. As the system calls: 0, or a negative errno.
struct PolicyCalls {
    int (*get)(MemoryPolicy* policy) noexcept;
    int (*set)(const MemoryPolicy& policy) noexcept;
};
[[nodiscard]] const PolicyCalls& kernel_policy_calls() noexcept;

/// Prefers a NUMA node for what this thread, and a driver called by it, allocates and touches first, and puts
/// the policy that was there before back. A preference: with the node full, memory comes from elsewhere.
/// Where the kernel refuses, or there is no such node, nothing changes and the log says so (debug). Does not
/// block. Created and destroyed by one thread.
class NodeBinding {
  public:
    /// `node`: the operating system's number; unknown_numa: no preference.
    explicit NodeBinding(int node, const PolicyCalls& calls = kernel_policy_calls()) noexcept;
    ~NodeBinding();
    NodeBinding(const NodeBinding&) = delete;
    NodeBinding& operator=(const NodeBinding&) = delete;

    [[nodiscard]] bool bound() const noexcept { return bound_; }

  private:
    const PolicyCalls& calls_;
    MemoryPolicy before_;
    bool bound_ = false;
};

}  // namespace railyard::topology
