#include "topology/node_binding.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "common/log.h"

namespace railyard::topology {
namespace {

constexpr std::size_t word_bits = sizeof(unsigned long) * CHAR_BIT;
constexpr unsigned long mask_bits = MemoryPolicy::max_nodes + 1;  // the kernel counts one less

int kernel_get(MemoryPolicy* policy) noexcept {
    const long rc = syscall(SYS_get_mempolicy, &policy->mode, policy->nodes.data(), mask_bits, nullptr, 0);
    return rc < 0 ? -errno : 0;
}

int kernel_set(const MemoryPolicy& policy) noexcept {
    const bool none = std::all_of(policy.nodes.begin(), policy.nodes.end(), [](auto word) { return !word; });
    const long rc = none ? syscall(SYS_set_mempolicy, policy.mode, nullptr, 0)
                         : syscall(SYS_set_mempolicy, policy.mode, policy.nodes.data(), mask_bits);
    return rc < 0 ? -errno : 0;
}

}  // namespace

const PolicyCalls& kernel_policy_calls() noexcept {
    static constexpr PolicyCalls calls{kernel_get, kernel_set};
    return calls;
}

NodeBinding::NodeBinding(int node, const PolicyCalls& calls) noexcept : calls_(calls) {
    const auto number = static_cast<std::size_t>(node);
    if (node < 0 || number >= MemoryPolicy::max_nodes) return;
    MemoryPolicy wanted;
    wanted.mode = MPOL_PREFERRED;
    wanted.nodes[number / word_bits] = 1UL << number % word_bits;
    int rc = calls_.get(&before_);
    if (rc == 0) rc = calls_.set(wanted);
    bound_ = rc == 0;
    if (!bound_) RAILYARD_LOG(debug, "topology", "memory is not bound to node %d: %s", node, strerror(-rc));
}

NodeBinding::~NodeBinding() {
    if (!bound_) return;
    if (const int rc = calls_.set(before_); rc != 0)
        RAILYARD_LOG(warn, "topology", "the thread's memory policy could not be put back: %s", strerror(-rc));
}

}  // namespace railyard::topology
