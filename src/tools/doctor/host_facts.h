// What the kernel, the container and the C library say of a machine that a survey does not hold: as plain
// values, for the diagnosis.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "fabric/interfaces.h"
#include "fabric/shm_names.h"
#include "topology/machine.h"

namespace railyard::tools {

/// An RDMA device, EFA or another, on the PCI bus.
struct VerbsDevice {
    std::string name;          ///< as the topology calls it, else its PCI address
    bool efa = false;          ///< else one for which the kernel has a verbs device
    std::string driver;        ///< of the kernel; empty: none is bound
    std::string node;          ///< "/dev/infiniband/uverbs0"; empty: the kernel has made none
    bool present = false;      ///< `node` is there
    bool usable = false;       ///< and can be opened to read and write
    std::string refusal = {};  ///< why not, where that is not for this user's want of rights
};

struct KernelVersion {
    unsigned major = 0, minor = 0;  ///< both 0: unknown
    auto operator<=>(const KernelVersion&) const = default;
};

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

struct HostFacts {
    KernelVersion kernel;
    unsigned rdma_core = 0;                    ///< major version; 0: not installed, or unknown
    std::optional<std::uint64_t> memlock;      ///< bytes that may be locked, or no_limit; nothing: unknown
    std::optional<std::uint64_t> files;        ///< that may be open, or no_limit; nothing: unknown
    bool may_lock_memory = false;              ///< CAP_IPC_LOCK of the machine, whatever the limit says
    std::uint64_t free_huge_pages = 0;         ///< of the default size, on the machine
    std::uint64_t huge_page = 0;               ///< bytes of one of these; 0: unknown
    std::uint64_t huge_page_limit = no_limit;  ///< bytes of them that the control group allows
    int ptrace_scope = 0;                      ///< of Yama; 0 where there is none
    bool may_trace = false;                    ///< CAP_SYS_PTRACE
    bool reads_memory = true;                  ///< process_vm_readv is allowed (seccomp)
    std::string container;                     ///< "Docker", "Podman", "Kubernetes"; empty: none is known
    std::optional<std::uint64_t> free_shm;  ///< bytes free in /dev/shm; nothing: there is no such directory
    std::uint64_t wanted_shm = fabric::shm_endpoint_bytes;  ///< bytes that libfabric wants free there
    bool writes_shm = true;                                 ///< this user may make files there
    std::string fi_provider, fi_provider_path, fi_efa_iface, fi_tcp_iface, fi_net_iface,
        fi_verbs_iface;                ///< of this process's environment; empty: not set
    std::string unread_topology;       ///< what HWLOC_XMLFILE names and hwloc has not read; empty: nothing
    std::vector<VerbsDevice> devices;  ///< of the topology's NICs
    std::vector<fabric::NetworkInterface> interfaces;
    std::string routed;                      ///< interface of the default route; empty: none
    bool cuda_runtime = true;                ///< libfabric finds CUDA's run time where it looks for it
    std::uint32_t headers = 0, library = 0;  ///< libfabric's versions, as FI_VERSION makes them
};

/// Reads files below `root` ("" for this machine), asks libfabric for its version, tries one system call.
/// `machine`: whose NICs. What cannot be read is as if it were not there. Throws std::bad_alloc.
[[nodiscard]] HostFacts gather_facts(const std::string& root, const topology::Machine& machine);

}  // namespace railyard::tools
