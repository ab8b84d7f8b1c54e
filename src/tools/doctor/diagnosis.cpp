#include "tools/doctor/diagnosis.h"

#include <algorithm>
#include <utility>

#include "common/spoken.h"
#include "cuda/driver.h"
#include "fabric/info.h"
#include "tools/doctor/rdma_checks.h"

namespace railyard::tools {
namespace {

constexpr KernelVersion copies_pages_on_fork{5, 13};  // and says so to rdma-core, from version 35 on
constexpr unsigned rdma_core_that_asks = 35;
/// Open files: of a process without rails, of a rail, and of a tcp rail for each peer: a connection each way.
constexpr std::uint64_t files_besides = 64, files_of_rail = 12, files_of_peer = 2;
constexpr std::uint64_t few_peers = 64;

class Diagnosis {
  public:
    Diagnosis(const HostFacts& facts, const Survey& survey) : facts_(facts), survey_(survey) {}

    std::vector<Finding> make() {
        const auto is_efa = [](const VerbsDevice& device) { return device.efa; };
        has_efa_ = std::any_of(facts_.devices.begin(), facts_.devices.end(), is_efa);
        check_topology();
        for (Finding& finding : check_rdma_devices(facts_, offers_efa()))
            findings_.push_back(std::move(finding));
        check_libfabric();
        check_rails();
        check_files();
        if (!facts_.devices.empty()) {
            check_memlock();
            check_fork();
        }
        if (has_efa_) check_huge_pages();
        check_gpus();
        check_same_host();
        if (survey_.family.starts_with("tcp")) check_tcp();
        return std::move(findings_);
    }

  private:
    void add(Severity severity, const char* check, std::string what, std::string remedy = {}) {
        findings_.push_back({severity, check, std::move(what), std::move(remedy)});
    }

    /// hwloc itself says nothing of a file that it cannot read.
    void check_topology() {
        if (facts_.unread_topology.empty()) return;
        add(Severity::warning, "topology",
            "HWLOC_XMLFILE names \"" + facts_.unread_topology +
                "\", which cannot be read: this machine's own topology is taken",
            "name an hwloc XML file that is there, as `lstopo --of xml FILE` writes one, or unset "
            "HWLOC_XMLFILE");
    }

    [[nodiscard]] bool offers_efa() const { return survey_.offers_efa || survey_.family.starts_with("efa"); }

    static std::string version_text(std::uint32_t version) {
        return std::to_string(FI_MAJOR(version)) + "." + std::to_string(FI_MINOR(version));
    }

    void check_libfabric() {
        const std::string versions =
            version_text(facts_.library) + ", built with the headers of " + version_text(facts_.headers);
        const std::string rebuild =
            "build Railyard against the libfabric that it runs on: -Dlibfabric_path=DIRECTORY" +
            std::string(has_efa_ ? ", /opt/amazon/efa for the EFA installer's" : "");
        if (facts_.library < facts_.headers) {
            add(Severity::warning, "libfabric", versions + ": it is older than these", rebuild);
        } else if (has_efa_ && facts_.headers < fabric::efa_rdma_version) {
            add(Severity::warning, "libfabric",
                versions +
                    ": EFA leaves device RDMA off for clients of headers before 1.18, so there is no "
                    "efa-direct, and every WRITE is emulated",
                rebuild);
        } else if (facts_.headers < facts_.library) {
            add(Severity::note, "libfabric", versions + ": what came between is not asked for", rebuild);
        } else {
            add(Severity::ok, "libfabric", versions);
        }
        const auto usable = [](const VerbsDevice& device) { return device.efa && device.usable; };
        if (std::any_of(facts_.devices.begin(), facts_.devices.end(), usable) && !offers_efa())
            findings_.push_back(unoffered_finding(facts_));
    }

    void check_rails() {
        if (survey_.rails.empty()) {
            return add(
                Severity::error, "rails", survey_.trouble.empty() ? "there are none" : survey_.trouble,
                unset_first(facts_, Wanted::anything) +
                    "see which providers there are: `fi_info -l`, `fi_info -p NAME`; package libfabric-bin");
        }
        for (const RailRow& rail : survey_.rails) {
            if (rail.state == "down") {
                add(Severity::warning, "rails", rail.name + ": its link is down",
                    "see the cable or the virtual function, or leave it out: devices=^" + rail.name);
            }
        }
        const std::string rails = counted(survey_.rails.size(), "rail") + " over " + survey_.family;
        if (survey_.family == "shm" && survey_.unasked) return add_shm_alone(rails);
        add(Severity::ok, "rails", rails);
    }

    /// Nobody asked for shm, which is what auto takes where there is nothing else.
    void add_shm_alone(const std::string& rails) {
        const std::string interfaces = candidates();
        const char* const meant = "; where shm is meant, set provider=shm";
        if (interfaces.empty()) {
            return add(Severity::note, "rails",
                       rails + ": no other machine is reached, as no network interface is up with an address",
                       std::string("give one an address, and bring it up") + meant);
        }
        add(Severity::warning, "rails",
            rails + ": no other machine is reached, as libfabric offers tcp on no interface" + interfaces,
            unset_first(facts_, Wanted::interfaces) + "see whether libfabric has tcp: `fi_info -l`" + meant);
    }

    /// How a limit of processes is raised. Kubernetes has no option for it.
    [[nodiscard]] std::string for_good(const std::string& of_unit, const std::string& of_container) const {
        if (facts_.container == "Kubernetes")
            return "pods have the limits of the node's container runtime: " + of_unit +
                   " in its systemd unit (containerd.service, say)";
        return "for good in /etc/security/limits.conf, " + of_unit + " (systemd), --ulimit " + of_container +
               " (containers)";
    }

    void check_files() {
        const std::uint64_t rails = survey_.rails.size(), least = files_besides + rails * files_of_rail;
        if (!facts_.files || rails == 0) return;
        const std::string remedy = "`ulimit -n 65536`; " + for_good("LimitNOFILE=65536", "nofile=65536");
        const std::string open = std::to_string(*facts_.files) + " files may be open";
        if (*facts_.files == no_limit) return add(Severity::ok, "files", "any number of files may be open");
        if (*facts_.files < least) {
            return add(Severity::warning, "files",
                       "only " + open + ", and an engine with " + counted(rails, "rail") + " needs about " +
                           std::to_string(least),
                       remedy);
        }
        const std::uint64_t peers = (*facts_.files - least) / (rails * files_of_peer);
        if (!survey_.family.starts_with("tcp") || peers >= few_peers) return add(Severity::ok, "files", open);
        add(Severity::note, "files",
            open + ": enough for about " + counted(peers, "peer") + " over tcp with " +
                counted(rails, "rail"),
            remedy);
    }

    void check_memlock() {
        if (facts_.may_lock_memory || facts_.memlock == no_limit)
            return add(Severity::ok, "memlock", "any amount of memory may be locked");
        if (!facts_.memlock) {
            return add(Severity::note, "memlock",
                       "how much memory may be locked cannot be read in /proc/self/limits",
                       "see that `ulimit -l` says unlimited");
        }
        add(Severity::warning, "memlock",
            "only " + std::to_string(*facts_.memlock >> 10) +
                " KiB may be locked: registering more memory fails",
            "`ulimit -l unlimited`; " + for_good("LimitMEMLOCK=infinity", "memlock=-1"));
    }

    void check_fork() {
        const std::string kernel =
            "kernel " + std::to_string(facts_.kernel.major) + "." + std::to_string(facts_.kernel.minor);
        const std::string library =
            facts_.rdma_core == 0 ? "rdma-core not found" : "rdma-core " + std::to_string(facts_.rdma_core);
        if (facts_.kernel >= copies_pages_on_fork && facts_.rdma_core >= rdma_core_that_asks)
            return add(Severity::ok, "fork",
                       kernel + " and " + library + ": registered memory outlasts fork()");
        const bool kernel_copies = facts_.kernel >= copies_pages_on_fork;
        add(kernel_copies ? Severity::note : Severity::warning, "fork",
            kernel + ", " + library + ": after fork() registered memory may not be what the device writes to",
            "a kernel from 5.13 on with rdma-core from 35 on; else FI_EFA_FORK_SAFE=1 (EFA, not with huge "
            "pages) or RDMAV_FORK_SAFE=1, where the process forks");
    }

    void check_huge_pages() {
        if (facts_.free_huge_pages == 0) {
            return add(Severity::note, "huge-pages", "none is free: EFA's buffers take ordinary pages",
                       "`sysctl vm.nr_hugepages=1024`, or more where memory is registered in huge pages");
        }
        const std::string free = std::to_string(facts_.free_huge_pages);
        if (facts_.huge_page_limit >= facts_.huge_page)
            return add(Severity::ok, "huge-pages", free + " huge pages are free");
        // Where the limit is one of use alone, and not of reservations, libfabric is given the page, and
        // touching it is what fails.
        add(Severity::warning, "huge-pages",
            free + " are free on the machine, and this " +
                (facts_.container.empty() ? "process's control group" : "container") +
                " may use none: EFA's buffers there may end the process with a bus error",
            (facts_.container == "Kubernetes"
                 ? "ask for hugepages-" + size_of_huge_page() + " in the pod's resource limits"
                 : std::string("raise the control group's hugetlb limit")) +
                ", or set FI_EFA_USE_HUGE_PAGE=0");
    }

    /// As Kubernetes writes it.
    [[nodiscard]] std::string size_of_huge_page() const {
        const std::uint64_t size = facts_.huge_page;
        return size >> 30 ? std::to_string(size >> 30) + "Gi" : std::to_string(size >> 20) + "Mi";
    }

    void check_gpus() {
        const bool driver_has_some = survey_.cuda && !survey_.cuda->gpus.empty();
        if (!survey_.machine.gpus.empty() && !driver_has_some) {
            const std::string why = survey_.cuda ? survey_.cuda->absent_because : std::string();
            return add(Severity::warning, "gpu",
                       counted(survey_.machine.gpus.size(), "GPU") + " on the bus, and none to be used" +
                           (why.empty() ? "" : ": " + why),
                       "`nvidia-smi` must list them: install the driver, or pass them into the container "
                       "(--gpus all)");
        }
        if (!driver_has_some) return;
        const auto reaches = [](const RailRow& rail) { return rail.gpu_memory; };
        const auto direct = std::count_if(survey_.rails.begin(), survey_.rails.end(), reaches);
        const std::string counts = std::to_string(direct) + " of " + std::to_string(survey_.rails.size()) +
                                   " rails reach GPU memory (FI_HMEM)";
        if (direct != 0 || facts_.devices.empty()) return add(Severity::ok, "gpu", counts);
        add(Severity::warning, "gpu", counts + ": it goes by way of host memory",
            facts_.cuda_runtime
                ? "a libfabric built with CUDA, and nvidia-peermem or a kernel with dma-buf: docs/gpu.md"
                : cuda::no_runtime);
    }

    /// What shm needs.
    void check_same_host() {
        if (!facts_.reads_memory) {
            add(Severity::warning, "ptrace",
                "a filter (seccomp) forbids process_vm_readv: shm copies everything twice",
                "a container runtime with a current profile, or --cap-add SYS_PTRACE");
        } else if (facts_.ptrace_scope > 2 || (facts_.ptrace_scope == 2 && !facts_.may_trace)) {
            add(Severity::note, "ptrace",
                "kernel.yama.ptrace_scope is " + std::to_string(facts_.ptrace_scope) +
                    ": processes of one host move their bytes over the fabric, and shm copies them twice",
                facts_.ptrace_scope == 2
                    ? "`sysctl kernel.yama.ptrace_scope=1`, or CAP_SYS_PTRACE"
                    : "kernel.yama.ptrace_scope=1 in /etc/sysctl.d and a restart, as 3 cannot be lowered");
        } else if (facts_.ptrace_scope == 1 && !facts_.may_trace) {
            add(Severity::ok, "ptrace",
                "kernel.yama.ptrace_scope is 1: engines let processes of their user reach their memory "
                "(PR_SET_PTRACER), unless local_rail=off");
        } else {
            add(Severity::ok, "ptrace", "processes of one user may reach each other's memory");
        }
        if (facts_.free_shm && !facts_.writes_shm) {
            return add(Severity::warning, "shm", "this user may not make files in /dev/shm, which shm does",
                       "`chmod 1777 /dev/shm`, or mount it for all to write");
        }
        if (facts_.free_shm && *facts_.free_shm >= facts_.wanted_shm)
            return add(Severity::ok, "shm",
                       std::to_string(*facts_.free_shm >> 20) + " MiB are free in /dev/shm");
        constexpr std::uint64_t gib = std::uint64_t{1} << 30;
        const std::string gibibytes = std::to_string((facts_.wanted_shm + gib - 1) / gib);
        add(Severity::warning, "shm",
            (facts_.free_shm ? "only " + std::to_string(*facts_.free_shm >> 20) + " MiB are free in /dev/shm"
                             : std::string("there is no /dev/shm")) +
                ": libfabric offers shm where " + std::to_string(facts_.wanted_shm >> 20) +
                " are, for an endpoint a core",
            facts_.container.empty() ? "`mount -t tmpfs tmpfs /dev/shm`, or make it larger"
                                     : "start the container with --shm-size=" + gibibytes +
                                           "g, or an emptyDir of medium Memory there");
    }

    void check_tcp() {
        const auto used = [&](const fabric::NetworkInterface& interface) {
            const auto carries = [&](const RailRow& rail) { return rail.name == interface.name; };
            return std::any_of(survey_.rails.begin(), survey_.rails.end(), carries);
        };
        bool good = true;
        for (const fabric::NetworkInterface& interface : facts_.interfaces) {
            if (!used(interface)) continue;
            const char* wrong = nullptr;
            if (interface.loopback) wrong = " reaches this machine alone";
            if (fabric::is_container_bridge(interface.name)) wrong = " is a bridge for containers";
            if (!wrong) continue;
            good = false;
            add(Severity::warning, "tcp-interface", interface.name + wrong,
                unset_first(facts_, Wanted::interfaces) + "name another one: devices=NAME" + candidates());
        }
        if (!good) return;
        if (facts_.routed.empty() && candidates().find(',') != std::string::npos)
            return add(Severity::note, "tcp-interface",
                       "there is no default route, so the first interface with a good address was taken",
                       "name the one that leads to the peers: devices=NAME" + candidates());
        if (facts_.routed.empty())
            return add(Severity::ok, "tcp-interface", "the only one that is up and has an address");
        const auto on_route = [&](const RailRow& rail) { return rail.name == facts_.routed; };
        const bool elsewhere = std::none_of(survey_.rails.begin(), survey_.rails.end(), on_route);
        const std::string first =
            elsewhere && !survey_.rails.empty() ? survey_.rails.front().name + "; " : "";
        add(Severity::ok, "tcp-interface", first + "the default route's is " + facts_.routed);
    }

    /// " (eth0, eth1)", of those that lead somewhere; empty where there is none.
    [[nodiscard]] std::string candidates() const {
        std::string names;
        for (const fabric::NetworkInterface& interface : facts_.interfaces) {
            if (!fabric::leads_out(interface)) continue;
            names += (names.empty() ? " (" : ", ") + interface.name;
        }
        return names.empty() ? names : names + ")";
    }

    const HostFacts& facts_;
    const Survey& survey_;
    bool has_efa_ = false;
    std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> diagnose(const HostFacts& facts, const Survey& survey) {
    return Diagnosis(facts, survey).make();
}

Severity worst_of(const std::vector<Finding>& findings) noexcept {
    Severity worst = Severity::ok;
    for (const Finding& finding : findings)
        worst = std::max(worst, finding.severity);
    return worst;
}

}  // namespace railyard::tools
