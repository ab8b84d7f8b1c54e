#include "tools/doctor/host_facts.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "common/file_text.h"
#include "cuda/driver.h"
#include "fabric/info.h"

namespace railyard::tools {
namespace {

namespace fs = std::filesystem;

constexpr unsigned cap_ipc_lock = 14, cap_sys_ptrace = 19;  // bits of CapEff, see capabilities(7)

/// What follows `key` in the line that begins with it; empty where there is none.
std::string value_of(const std::string& text, std::string_view key) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with(key)) continue;
        const std::size_t begin = line.find_first_not_of(" \t", key.size());
        return begin == std::string::npos ? std::string() : line.substr(begin);
    }
    return {};
}

std::uint64_t number_in(const std::string& text, int base = 10) {
    return std::strtoull(text.c_str(), nullptr, base);
}

/// Of the environment that this process was started with; the settings' reader of it has none of these.
std::string variable(const std::string& root, std::string_view name) {
    std::istringstream environment(file_text(root + "/proc/self/environ"));
    for (std::string entry; std::getline(environment, entry, '\0');) {
        if (entry.starts_with(name) && entry.size() > name.size() && entry[name.size()] == '=')
            return entry.substr(name.size() + 1);
    }
    return {};
}

/// Outside of all user namespaces: a capability in one (a rootless container's) counts for nothing where the
/// machine's is asked for, as it is to pin memory for devices.
bool of_the_machine(const std::string& root) {
    std::istringstream map(file_text(root + "/proc/self/uid_map"));
    std::uint64_t here = 0, there = 0, count = 0;
    if (!(map >> here >> there >> count)) return true;  // a kernel without them
    return here == 0 && there == 0 && count == 0xffffffff;
}

void read_process(const std::string& root, HostFacts& facts) {
    const std::string limits = file_text(root + "/proc/self/limits");
    const auto limit = [&](std::string_view name) -> std::optional<std::uint64_t> {
        const std::string value = value_of(limits, name);
        if (value.empty()) return std::nullopt;
        return value.starts_with("unlimited") ? no_limit : number_in(value);
    };
    facts.memlock = limit("Max locked memory");
    facts.files = limit("Max open files");
    const std::uint64_t capabilities =
        number_in(value_of(file_text(root + "/proc/self/status"), "CapEff:"), 16);
    facts.may_lock_memory = (capabilities >> cap_ipc_lock & 1) != 0 && of_the_machine(root);
    facts.may_trace = (capabilities >> cap_sys_ptrace & 1) != 0;
}

/// Of our control group (version 2, else 1), for pages of `size` bytes.
std::uint64_t huge_page_limit(const std::string& root, std::uint64_t size) {
    const std::string name = "/hugetlb." + (size >> 30   ? std::to_string(size >> 30) + "GB"
                                            : size >> 20 ? std::to_string(size >> 20) + "MB"
                                                         : std::to_string(size >> 10) + "KB");
    const std::string group = value_of(file_text(root + "/proc/self/cgroup"), "0::");
    for (const std::string& path : {group + name + ".max", "/hugetlb" + name + ".limit_in_bytes"}) {
        const std::string limit = file_text(root + "/sys/fs/cgroup" + path);
        if (!limit.empty()) return limit.starts_with("max") ? no_limit : number_in(limit);
    }
    return no_limit;
}

void read_kernel(const std::string& root, HostFacts& facts) {
    const std::string release = file_text(root + "/proc/sys/kernel/osrelease");
    if (std::sscanf(release.c_str(), "%u.%u", &facts.kernel.major, &facts.kernel.minor) != 2)
        facts.kernel = {};
    const std::string memory = file_text(root + "/proc/meminfo");
    facts.free_huge_pages = number_in(value_of(memory, "HugePages_Free:"));
    facts.huge_page = number_in(value_of(memory, "Hugepagesize:")) << 10;
    facts.huge_page_limit = huge_page_limit(root, facts.huge_page);
    facts.ptrace_scope = static_cast<int>(number_in(file_text(root + "/proc/sys/kernel/yama/ptrace_scope")));
}

/// rdma-core names its library libibverbs.so.1.ABI.VERSION.MINOR.
unsigned rdma_core_version(const std::string& root) {
    unsigned newest = 0;
    for (const char* directory :
         {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"}) {
        std::error_code error;
        for (const fs::directory_entry& entry : fs::directory_iterator(root + directory, error)) {
            unsigned abi = 0, version = 0;
            const std::string name = entry.path().filename();
            if (std::sscanf(name.c_str(), "libibverbs.so.1.%u.%u", &abi, &version) == 2)
                newest = std::max(newest, version);
        }
    }
    return newest;
}

std::string container_under(const std::string& root) {
    std::error_code error;
    // A pod has the account's directory unless that is not mounted, and the variable always.
    if (fs::exists(root + "/var/run/secrets/kubernetes.io", error) ||
        !variable(root, "KUBERNETES_SERVICE_HOST").empty())
        return "Kubernetes";
    if (fs::exists(root + "/.dockerenv", error)) return "Docker";
    if (fs::exists(root + "/run/.containerenv", error)) return "Podman";
    return {};
}

std::optional<std::uint64_t> free_shared_memory(const std::string& root) {
    struct statvfs system {};
    if (statvfs((root + "/dev/shm").c_str(), &system) != 0) return std::nullopt;
    return std::uint64_t{system.f_bavail} * system.f_frsize;
}

/// Of ourselves, which every rule of the kernel allows but a filter of system calls.
bool may_read_memory() noexcept {
    char from = 1, to = 0;
    const iovec here{&to, 1}, there{&from, 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
}

VerbsDevice look_at(const std::string& root, const topology::NicDesc& nic) {
    const std::string address = to_string(nic.pci), directory = root + "/sys/bus/pci/devices/" + address;
    VerbsDevice device;
    device.name = nic.name.empty() ? address : nic.name;
    device.efa = nic.efa;
    std::error_code error;
    device.driver = fs::read_symlink(directory + "/driver", error).filename();
    for (const fs::directory_entry& entry : fs::directory_iterator(directory + "/infiniband_verbs", error))
        device.node = "/dev/infiniband/" + entry.path().filename().string();
    if (device.node.empty()) return device;
    device.present = access((root + device.node).c_str(), F_OK) == 0;
    const int opened = open((root + device.node).c_str(), O_RDWR | O_CLOEXEC);
    const int reason = opened < 0 ? errno : 0;
    device.usable = opened >= 0;
    if (opened >= 0) close(opened);
    // A container's rules for devices refuse what the rights of the file allow.
    const bool allowed = access((root + device.node).c_str(), R_OK | W_OK) == 0;
    if (!device.usable && allowed) device.refusal = std::strerror(reason);
    return device;
}

}  // namespace

HostFacts gather_facts(const std::string& root, const topology::Machine& machine) {
    HostFacts facts;
    read_process(root, facts);
    read_kernel(root, facts);
    facts.fi_provider = variable(root, "FI_PROVIDER");
    facts.fi_provider_path = variable(root, "FI_PROVIDER_PATH");
    facts.fi_efa_iface = variable(root, "FI_EFA_IFACE");
    facts.fi_tcp_iface = variable(root, "FI_TCP_IFACE");
    facts.fi_net_iface = variable(root, "FI_NET_IFACE");
    facts.fi_verbs_iface = variable(root, "FI_VERBS_IFACE");
    // With HWLOC_THISSYSTEM the machine of a file is said to be this one, too.
    if (machine.this_machine && variable(root, "HWLOC_THISSYSTEM").empty())
        facts.unread_topology = variable(root, "HWLOC_XMLFILE");
    facts.rdma_core = rdma_core_version(root);
    facts.container = container_under(root);
    facts.free_shm = free_shared_memory(root);
    facts.wanted_shm = fabric::shm_bytes_wanted();
    facts.writes_shm = access((root + "/dev/shm").c_str(), W_OK | X_OK) == 0;
    facts.reads_memory = may_read_memory();
    for (const topology::NicDesc& nic : machine.nics) {
        VerbsDevice device = look_at(root, nic);
        if (device.efa || !device.node.empty()) facts.devices.push_back(std::move(device));
    }
    facts.interfaces = fabric::network_interfaces();
    facts.routed = fabric::default_route_interface(root);
    facts.cuda_runtime = cuda::finds_runtime();
    facts.headers = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
    facts.library = fi_version();
    return facts;
}

}  // namespace railyard::tools
