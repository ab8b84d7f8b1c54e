#include "topology/memory_nodes.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#include "topology/hwloc_tree.h"

namespace railyard::topology {
namespace {

const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

/// A kernel whose pages below 4 GiB are on node 0 and above on node 1; nothing is there from 8 GiB on.
int two_nodes(std::size_t count, void** pages, int* status) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        const auto gib = reinterpret_cast<std::uintptr_t>(pages[i]) >> 30;
        status[i] = gib < 4 ? 0 : gib < 8 ? 1 : -ENOENT;
    }
    return 0;
}
int refuse_pages(std::size_t, void**, int*) noexcept {
    return -EPERM;
}
int on_node_3(unsigned* node) noexcept {
    return *node = 3, 0;
}
int refuse_node(unsigned*) noexcept {
    return -EPERM;
}
int default_policy(void*, std::vector<int>* nodes) {
    return nodes->clear(), 0;
}
int interleaved(void*, std::vector<int>* nodes) {
    return *nodes = {0, 2}, 0;
}
int refuse_policy(void*, std::vector<int>*) {
    return -EPERM;
}

int all_allowed(std::vector<int>* nodes) {
    return *nodes = {0, 1, 2, 3}, 0;
}
int other_nodes_allowed(std::vector<int>* nodes) {
    return *nodes = {1, 2}, 0;
}
int refuse_allowed(std::vector<int>*) {
    return -EPERM;
}

constexpr MemoryCalls simple{two_nodes, on_node_3, default_policy, all_allowed};
constexpr std::size_t gib = std::size_t{1} << 30;

std::vector<int> nodes_at(std::size_t begin, std::size_t end, const MemoryCalls& calls = simple) {
    return memory_nodes(reinterpret_cast<const void*>(begin), end - begin, calls);
}

TEST(MemoryNodes, LooksAtTheWholeRange) {
    EXPECT_EQ(nodes_at(gib, 2 * gib), (std::vector<int>{0}));
    EXPECT_EQ(nodes_at(5 * gib, 6 * gib), (std::vector<int>{1}));
    EXPECT_EQ(nodes_at(gib, 6 * gib), (std::vector<int>{0, 1}));
    EXPECT_EQ(nodes_at(gib, 4 * gib + 1), (std::vector<int>{0, 1})) << "the last page alone is elsewhere";
    EXPECT_EQ(nodes_at(4 * gib - 1, 5 * gib), (std::vector<int>{0, 1}))
        << "the first page alone is elsewhere";
    EXPECT_EQ(nodes_at(4 * gib - 1, 4 * gib), (std::vector<int>{0}));
    EXPECT_EQ(nodes_at(gib, gib), (std::vector<int>{0})) << "an empty range lies where it starts";
}

TEST(MemoryNodes, UntouchedPagesCountWhereTheyWouldLand) {
    EXPECT_EQ(nodes_at(9 * gib, 10 * gib), (std::vector<int>{3}));
    EXPECT_EQ(nodes_at(7 * gib, 10 * gib), (std::vector<int>{1, 3}));
    EXPECT_EQ(nodes_at(9 * gib, 10 * gib, {two_nodes, on_node_3, interleaved, all_allowed}),
              (std::vector<int>{0, 2}));
    EXPECT_EQ(nodes_at(9 * gib, 10 * gib, {two_nodes, on_node_3, refuse_policy, all_allowed}),
              (std::vector<int>{3}));
}

/// As `docker run --cpuset-mems 1,2` has it, with the CPUs of all nodes.
TEST(MemoryNodes, UntouchedPagesLandWhereTheCgroupLetsThem) {
    EXPECT_EQ(nodes_at(9 * gib, 10 * gib, {two_nodes, on_node_3, default_policy, other_nodes_allowed}),
              (std::vector<int>{1, 2}));
    EXPECT_EQ(nodes_at(9 * gib, 10 * gib, {two_nodes, on_node_3, default_policy, refuse_allowed}),
              (std::vector<int>{3}));
    std::vector<int> allowed;
    if (kernel_memory_calls().allowed_nodes(&allowed) == 0) {
        EXPECT_FALSE(allowed.empty());
    }
}

TEST(MemoryNodes, AKernelThatRefusesMeansUnknown) {
    EXPECT_TRUE(nodes_at(gib, 2 * gib, {refuse_pages, on_node_3, default_policy, all_allowed}).empty());
    EXPECT_TRUE(nodes_at(9 * gib, 10 * gib, {two_nodes, refuse_node, refuse_policy, all_allowed}).empty());
}

TEST(MemoryNodes, OfThisProcess) {
    const std::size_t length = 1024 * page;
    void* memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto resident = [&] {
        std::vector<unsigned char> pages(1024);
        EXPECT_EQ(mincore(memory, length, pages.data()), 0);
        return std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return p & 1; });
    };
    const std::vector<int> before = memory_nodes(memory, length);
    EXPECT_EQ(resident(), 0) << "asking touched the memory";
    for (std::size_t i = 0; i < length; i += page)
        static_cast<volatile char*>(memory)[i] = 1;
    const std::vector<int> after = memory_nodes(memory, length);
    munmap(memory, length);
    // Where the kernel refuses both are empty, else they name nodes of this machine.
    EXPECT_EQ(before.empty(), after.empty());
    const Machine machine = read_machine();
    for (const int node : after) {
        EXPECT_TRUE(std::any_of(machine.numa.begin(), machine.numa.end(), [&](const NumaNode& n) {
            return n.node == node;
        })) << node;
    }
    EXPECT_LE(after.size(), machine.numa.size());
}

/// As `numactl --membind=0` leaves it to a program.
TEST(MemoryNodes, UntouchedMemoryFollowsTheThreadsPolicy) {
    std::string refused;
    std::vector<int> nodes{-1};
    const auto bound = [&] {  // a thread's policy ends with it
        const unsigned long first_node = 1;
        if (syscall(SYS_set_mempolicy, MPOL_BIND, &first_node, 8 * sizeof(first_node)) != 0) {
            refused = std::strerror(errno);
            return;
        }
        void* const memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT_EQ(kernel_memory_calls().policy_nodes(memory, &nodes), 0);
        munmap(memory, page);
    };
    std::thread(bound).join();
    if (!refused.empty()) GTEST_SKIP() << "set_mempolicy: " << refused;
    EXPECT_EQ(nodes, std::vector<int>{0});
}

TEST(MemoryNodes, TheDefaultPolicyNamesNoNodes) {
    void* const memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::vector<int> nodes{-1};
    const int rc = kernel_memory_calls().policy_nodes(memory, &nodes);
    munmap(memory, page);
    int mode = MPOL_DEFAULT;
    if (rc != 0 || syscall(SYS_get_mempolicy, &mode, nullptr, 0, nullptr, 0) != 0)
        GTEST_SKIP() << "get_mempolicy is refused";
    if (mode == MPOL_DEFAULT) {
        EXPECT_TRUE(nodes.empty());
    }
}

}  // namespace
}  // namespace railyard::topology
