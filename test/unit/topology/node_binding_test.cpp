#include "topology/node_binding.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>

#include <cerrno>
#include <vector>

#include "topology/machine.h"

namespace railyard::topology {
namespace {

/// A kernel with this policy, which writes down what it is told.
struct Kernel {
    MemoryPolicy policy;
    std::vector<MemoryPolicy> told;
    int answer_get = 0, answer_set = 0;
};
Kernel kernel;

constexpr PolicyCalls scripted{
    [](MemoryPolicy* policy) noexcept {
        *policy = kernel.policy;
        return kernel.answer_get;
    },
    [](const MemoryPolicy& policy) noexcept {
        if (kernel.answer_set == 0) kernel.policy = policy;
        kernel.told.push_back(policy);
        return kernel.answer_set;
    },
};

void start(int mode, unsigned long nodes) {
    kernel = {};
    kernel.policy.mode = mode;
    kernel.policy.nodes[0] = nodes;
}

TEST(NodeBinding, PrefersTheNodeAndPutsThePolicyBack) {
    start(MPOL_INTERLEAVE, 0b1011);
    {
        const NodeBinding binding(70, scripted);
        EXPECT_TRUE(binding.bound());
        EXPECT_EQ(kernel.policy.mode, MPOL_PREFERRED);
        EXPECT_EQ(kernel.policy.nodes[0], 0UL);
        EXPECT_EQ(kernel.policy.nodes[1], 1UL << 6);
    }
    EXPECT_EQ(kernel.policy.mode, MPOL_INTERLEAVE);
    EXPECT_EQ(kernel.policy.nodes[0], 0b1011UL);
    EXPECT_EQ(kernel.policy.nodes[1], 0UL);
}

TEST(NodeBinding, WithoutANodeThereIsNothingToDo) {
    for (const int node : {unknown_numa, static_cast<int>(MemoryPolicy::max_nodes)}) {
        start(MPOL_DEFAULT, 0);
        EXPECT_FALSE(NodeBinding(node, scripted).bound());
        EXPECT_TRUE(kernel.told.empty());
    }
}

TEST(NodeBinding, AKernelThatRefusesIsLeftAlone) {
    start(MPOL_BIND, 1);
    kernel.answer_set = -EPERM;
    EXPECT_FALSE(NodeBinding(0, scripted).bound());
    EXPECT_EQ(kernel.told.size(), 1u) << "something is put back that was never changed";
    start(MPOL_BIND, 1);
    kernel.answer_get = -ENOSYS;
    EXPECT_FALSE(NodeBinding(0, scripted).bound());
    EXPECT_TRUE(kernel.told.empty()) << "what cannot be put back is not changed";
}

TEST(NodeBinding, OfThisThread) {
    const PolicyCalls& calls = kernel_policy_calls();
    MemoryPolicy before, during, after;
    if (calls.get(&before) != 0) GTEST_SKIP() << "the kernel does not tell memory policies here";
    {
        const NodeBinding binding(0);
        if (!binding.bound()) GTEST_SKIP() << "the kernel does not set memory policies here";
        ASSERT_EQ(calls.get(&during), 0);
        EXPECT_EQ(during.mode, MPOL_PREFERRED);
        EXPECT_EQ(during.nodes[0], 1UL);
        const NodeBinding nowhere(static_cast<int>(MemoryPolicy::max_nodes) - 1);
        EXPECT_FALSE(nowhere.bound());
    }
    ASSERT_EQ(calls.get(&after), 0);
    EXPECT_EQ(after.mode, before.mode);
    EXPECT_EQ(after.nodes, before.nodes);
}

}  // namespace
}  // namespace railyard::topology
