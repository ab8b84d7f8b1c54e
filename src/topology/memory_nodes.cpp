#include "topology/memory_nodes.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>

namespace railyard::topology {
namespace {

constexpr std::size_t max_samples = 64;
constexpr unsigned long max_nodes = 1024;  // what kernels are built for at most

int result(long rc) noexcept {
    return rc < 0 ? -errno : 0;
}

int kernel_page_nodes(std::size_t count, void** pages, int* status) noexcept {
    return result(syscall(SYS_move_pages, 0, count, pages, nullptr, status, 0));
}

int kernel_current_node(unsigned* node) noexcept {
    return result(syscall(SYS_getcpu, nullptr, node, nullptr));
}

/// As `flags` says; without an address, of the calling thread.
int ask_policy(void* address, unsigned flags, int* mode, std::vector<int>* nodes) {
    constexpr std::size_t bits = sizeof(unsigned long) * CHAR_BIT;
    unsigned long mask[max_nodes / bits + 1] = {};
    const int rc = result(syscall(SYS_get_mempolicy, mode, mask, max_nodes + 1, address, flags));
    if (rc != 0) return rc;
    nodes->clear();
    for (std::size_t node = 0; node < max_nodes; ++node) {
        if (mask[node / bits] >> (node % bits) & 1) nodes->push_back(static_cast<int>(node));
    }
    return 0;
}

/// Of memory that nobody has bound the kernel answers MPOL_DEFAULT, and has its pages follow the policy of
/// the thread that touches them. The default policy has no nodes.
int kernel_policy_nodes(void* address, std::vector<int>* nodes) {
    int mode = MPOL_DEFAULT;
    const int rc = ask_policy(address, MPOL_F_ADDR, &mode, nodes);
    if (rc != 0 || mode != MPOL_DEFAULT) return rc;
    return ask_policy(nullptr, 0, &mode, nodes);
}

int kernel_allowed_nodes(std::vector<int>* nodes) {
    int mode = MPOL_DEFAULT;
    return ask_policy(nullptr, MPOL_F_MEMS_ALLOWED, &mode, nodes);
}

std::vector<void*> sample(std::uintptr_t address, std::size_t length) {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t first = address / page;
    const std::uintptr_t last = (address + std::max<std::size_t>(length, 1) - 1) / page;
    const std::size_t count = std::min<std::uintptr_t>(last - first + 1, max_samples);
    std::vector<void*> pages;
    for (std::size_t i = 0; i < count; ++i) {
        const std::uintptr_t step =
            count == 1 ? 0
                       : (last - first) / (count - 1) * i + (last - first) % (count - 1) * i / (count - 1);
        pages.push_back(reinterpret_cast<void*>((first + step) * page));
    }
    return pages;
}

/// Where a page that nobody has touched would land. False: the kernel does not tell.
bool add_future_nodes(void* page, const MemoryCalls& calls, std::vector<int>& nodes) {
    std::vector<int> policy;
    if (calls.policy_nodes(page, &policy) != 0) policy.clear();
    if (policy.empty()) {
        unsigned node = 0;
        if (calls.current_node(&node) != 0) return false;
        const int here = static_cast<int>(node);
        const bool asked = calls.allowed_nodes(&policy) == 0 && !policy.empty();
        if (!asked || std::find(policy.begin(), policy.end(), here) != policy.end()) policy = {here};
    }
    nodes.insert(nodes.end(), policy.begin(), policy.end());
    return true;
}

}  // namespace

const MemoryCalls& kernel_memory_calls() noexcept {
    static constexpr MemoryCalls calls{kernel_page_nodes, kernel_current_node, kernel_policy_nodes,
                                       kernel_allowed_nodes};
    return calls;
}

std::vector<int> memory_nodes(const void* address, std::size_t length, const MemoryCalls& calls) {
    std::vector<void*> pages = sample(reinterpret_cast<std::uintptr_t>(address), length);
    std::vector<int> status(pages.size(), -ENOENT);
    if (calls.page_nodes(pages.size(), pages.data(), status.data()) != 0) return {};
    std::vector<int> nodes;
    void* untouched = nullptr;
    for (std::size_t i = 0; i < pages.size(); ++i) {
        if (status[i] >= 0) {
            nodes.push_back(status[i]);
        } else if (!untouched) {
            untouched = pages[i];
        }
    }
    if (untouched && !add_future_nodes(untouched, calls, nodes)) return {};
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return nodes;
}

}  // namespace railyard::topology
