// What the kernel, a container or a library lets a process do.
#include "examined_machine.h"

namespace railyard::tools {
namespace {

TEST(Diagnosis, Memory) {
    Machine machine;
    machine.facts.memlock = 8 << 20;
    expect_one(machine, "memlock", Severity::warning, "only 8192 KiB", "ulimit -l unlimited");
    machine.facts.may_lock_memory = true;
    EXPECT_TRUE(machine.troubles("memlock").empty());
    machine.facts.memlock.reset();
    EXPECT_TRUE(machine.troubles("memlock").empty());
    machine.facts.may_lock_memory = false;
    expect_one(machine, "memlock", Severity::note, "cannot be read", "ulimit -l");
    machine.facts.memlock = no_limit;
    machine.facts.free_huge_pages = 0;
    expect_one(machine, "huge-pages", Severity::note, "none is free", "vm.nr_hugepages");
}

TEST(Diagnosis, HugePagesThatAContainerMayNotUse) {
    Machine machine;
    machine.facts.huge_page = 2 << 20;
    EXPECT_TRUE(machine.troubles("huge-pages").empty()) << "there is no limit";
    machine.facts.huge_page_limit = 2 << 20;
    EXPECT_TRUE(machine.troubles("huge-pages").empty()) << "it may use one";
    machine.facts.huge_page_limit = (2 << 20) - 1;
    expect_one(machine, "huge-pages", Severity::warning,
               "512 are free on the machine, and this process's control group may use none",
               "raise the control group's hugetlb limit, or set FI_EFA_USE_HUGE_PAGE=0");
    machine.facts.container = "Kubernetes";
    expect_one(machine, "huge-pages", Severity::warning, "this container may use none",
               "hugepages-2Mi in the pod's resource limits, or set FI_EFA_USE_HUGE_PAGE=0");
    machine.facts.huge_page = 1 << 30;
    expect_one(machine, "huge-pages", Severity::warning, "this container may use none", "hugepages-1Gi in");
    machine.facts.free_huge_pages = 0;
    expect_one(machine, "huge-pages", Severity::note, "none is free", "vm.nr_hugepages");
}

/// Kubernetes has no --ulimit.
TEST(Diagnosis, LimitsOfAPodAreItsRuntimes) {
    Machine machine;
    machine.facts.memlock = 8 << 20;
    machine.facts.files = 32;
    expect_one(machine, "memlock", Severity::warning, "only 8192 KiB", "--ulimit memlock=-1 (containers)");
    machine.facts.container = "Kubernetes";
    for (const auto& [check, limit] :
         {std::pair{"memlock", "LimitMEMLOCK=infinity"}, std::pair{"files", "LimitNOFILE=65536"}}) {
        expect_one(machine, check, Severity::warning, "only ", std::string(limit) + " in its systemd unit");
        EXPECT_EQ(machine.troubles(check).at(0).remedy.find("--ulimit"), std::string::npos);
    }
}

TEST(Diagnosis, Files) {
    Machine machine;
    machine.survey.rails.resize(32, machine.survey.rails.front());
    machine.facts.files = 256;
    expect_one(machine, "files", Severity::warning, "only 256 files may be open", "ulimit -n");
    machine.facts.files = 1024;
    EXPECT_TRUE(machine.troubles("files").empty());
    Machine tcp = Machine::over_tcp("eth0");
    EXPECT_TRUE(tcp.troubles("files").empty());
    tcp.survey.rails.resize(8, tcp.survey.rails.front());
    expect_one(tcp, "files", Severity::note, "1024 files may be open: enough for about 54 peers",
               "nofile=65536");
    tcp.facts.files = no_limit;
    EXPECT_TRUE(tcp.troubles("files").empty());
    tcp.facts.files.reset();
    EXPECT_TRUE(tcp.troubles("files").empty());
}

TEST(Diagnosis, Forks) {
    Machine machine;
    machine.facts.kernel = {5, 13};
    machine.facts.rdma_core = 35;
    EXPECT_TRUE(machine.troubles("fork").empty());
    machine.facts.rdma_core = 34;
    expect_one(machine, "fork", Severity::note, "rdma-core 34", "FI_EFA_FORK_SAFE=1");
    machine.facts.rdma_core = 0;
    expect_one(machine, "fork", Severity::note, "rdma-core not found", "rdma-core from 35 on");
    machine.facts.kernel = {5, 12};
    expect_one(machine, "fork", Severity::warning, "kernel 5.12", "5.13");
}

TEST(Diagnosis, ProcessesOfOneHost) {
    Machine machine;
    machine.facts.ptrace_scope = 1;
    EXPECT_TRUE(machine.troubles("ptrace").empty()) << "engines ask for it";
    machine.facts.ptrace_scope = 2;
    expect_one(machine, "ptrace", Severity::note, "ptrace_scope is 2", "sysctl");
    machine.facts.ptrace_scope = 3;
    expect_one(machine, "ptrace", Severity::note, "ptrace_scope is 3", "restart");
    machine.facts.may_trace = true;
    expect_one(machine, "ptrace", Severity::note, "ptrace_scope is 3", "restart");
    machine.facts.ptrace_scope = 2;
    EXPECT_TRUE(machine.troubles("ptrace").empty());
    machine.facts.reads_memory = false;
    expect_one(machine, "ptrace", Severity::warning, "seccomp", "SYS_PTRACE");
    machine.facts.reads_memory = true;
    machine.facts.wanted_shm = 4 * fabric::shm_endpoint_bytes;  // on four cores
    machine.facts.free_shm = 64 << 20;
    EXPECT_TRUE(machine.troubles("shm").empty());
    machine.facts.free_shm = 63 << 20;
    expect_one(machine, "shm", Severity::warning, "only 63 MiB", "mount");
    machine.facts.wanted_shm = 80 * fabric::shm_endpoint_bytes;
    machine.facts.free_shm = 1 << 30;
    expect_one(machine, "shm", Severity::warning, "where 1280 are", "mount");
    machine.facts.writes_shm = false;
    expect_one(machine, "shm", Severity::warning, "may not make files in /dev/shm", "chmod 1777");
    machine.facts.free_shm.reset();
    machine.facts.container = "Podman";
    expect_one(machine, "shm", Severity::warning, "no /dev/shm", "--shm-size=2g");
}

}  // namespace
}  // namespace railyard::tools
