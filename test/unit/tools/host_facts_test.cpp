// Facts read from a file tree that the test makes.
#include "tools/doctor/host_facts.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "forbid_process_vm.h"

namespace railyard::tools {
namespace {

namespace fs = std::filesystem;

class HostFactsTest : public testing::Test {
  protected:
    HostFactsTest() {
        std::string name = fs::temp_directory_path() / "railyard-facts-XXXXXX";
        if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
        root_ = name;
    }
    ~HostFactsTest() override { fs::remove_all(root_); }
    void put(const std::string& path, const std::string& text = "") {
        fs::create_directories(fs::path(root_ + path).parent_path());
        std::ofstream(root_ + path) << text;
    }
    [[nodiscard]] HostFacts gather() const { return gather_facts(root_, machine_); }

    /// What `look` answers in a child that has given up some of its rights by `restrict`, for good.
    template <class Restrict, class Look>
    static bool in_child(Restrict restrict_rights, Look look) {
        const pid_t child = fork();
        if (child == 0) _exit(!restrict_rights() ? 2 : look() ? 1 : 0);
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) < 2) << "cannot give up rights here: " << status;
        return WIFEXITED(status) && WEXITSTATUS(status) == 1;
    }

    std::string root_;
    topology::Machine machine_;
};

TEST_F(HostFactsTest, OfAnEmptyTreeNothingIsKnown) {
    machine_.nics = {{"rdmap79s0", {0, 0x4f, 0, 0}, 100, 0, true}, {"eth0", {0, 0x50, 0, 0}, 10, 0, false}};
    const HostFacts facts = gather();
    EXPECT_EQ(facts.kernel, KernelVersion{});
    EXPECT_EQ(facts.rdma_core, 0u);
    EXPECT_FALSE(facts.memlock);
    EXPECT_FALSE(facts.may_lock_memory || facts.may_trace);
    EXPECT_EQ(facts.container, "");
    EXPECT_FALSE(facts.free_shm);
    ASSERT_EQ(facts.devices.size(), 1u) << "a network card without a verbs device is no concern";
    EXPECT_EQ(facts.devices[0].driver, "");
    EXPECT_GE(facts.library, facts.headers);
}

TEST_F(HostFactsTest, Process) {
    put("/proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max processes             31000                31000                processes \n"
        "Max open files            1024                 1048576              files     \n"
        "Max locked memory         8388608              unlimited            bytes     \n");
    put("/proc/self/status", "Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t0000000000004000\n");
    HostFacts facts = gather();
    EXPECT_EQ(facts.memlock, 8388608u);
    EXPECT_EQ(facts.files, 1024u);
    EXPECT_TRUE(facts.may_lock_memory);
    EXPECT_FALSE(facts.may_trace);
    put("/proc/self/limits", "Max locked memory         unlimited            unlimited            bytes\n");
    put("/proc/self/status", "CapEff:\t0000000000080000\n");
    facts = gather();
    EXPECT_EQ(facts.memlock, no_limit);
    EXPECT_FALSE(facts.files);
    EXPECT_FALSE(facts.may_lock_memory);
    EXPECT_TRUE(facts.may_trace);
}

/// What a rootless container's root may do is not what the machine's may.
TEST_F(HostFactsTest, CapabilitiesOfAUserNamespaceLockNoMemory) {
    put("/proc/self/status", "CapEff:\t000001ffffffffff\n");
    for (const char* map : {"         0       1000          1\n", "0 0 1\n", "0 100000 4294967295\n",
                            "0 1000 1\n1 100000 65536\n"}) {
        put("/proc/self/uid_map", map);
        EXPECT_FALSE(gather().may_lock_memory) << map;
        EXPECT_TRUE(gather().may_trace) << "others of the same namespace";
    }
    put("/proc/self/uid_map", "         0          0 4294967295\n");
    EXPECT_TRUE(gather().may_lock_memory);
}

/// Of names that begin or end alike none is taken for another, and a value may have anything in it but a NUL.
TEST_F(HostFactsTest, Environment) {
    EXPECT_EQ(gather().fi_provider + gather().fi_provider_path, "") << "there is none";
    using namespace std::string_literals;
    put("/proc/self/environ",
        "XFI_PROVIDER=a\0FI_PROVIDER_PATH=/opt/"
        "a=b\nc\0FI_PROVIDER\0FI_PROVIDER=^tcp\0FI_PROVIDER=b\0FI_EFA_IFACE=x\0"
        "FI_TCP_IFACE=t\0FI_NET_IFACE=n\0FI_VERBS_IFACE=v\0"s);
    EXPECT_EQ(gather().fi_efa_iface, "x");
    EXPECT_EQ(gather().fi_tcp_iface + gather().fi_net_iface + gather().fi_verbs_iface, "tnv");
    EXPECT_EQ(gather().fi_provider, "^tcp");
    EXPECT_EQ(gather().fi_provider_path, "/opt/a=b\nc");
    put("/proc/self/environ", "XFI_PROVIDER=a\0FI_PROVIDER_PATH=\0FI_PROVIDERS=b\0"s);
    EXPECT_EQ(gather().fi_provider + gather().fi_provider_path, "");
}

TEST_F(HostFactsTest, Kernel) {
    put("/proc/sys/kernel/osrelease", "5.10.223-211.872.amzn2.x86_64\n");
    put("/proc/sys/kernel/yama/ptrace_scope", "2\n");
    put("/proc/meminfo", "MemTotal: 1 kB\nHugePages_Total:      64\nHugePages_Free:       40\n");
    put("/usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0");
    put("/usr/lib64/libibverbs.so.1.14.52.0");
    put("/usr/lib64/libibverbs.so.1");
    put("/usr/lib/libibverbs.so.1.11.32.0");
    put("/proc/net/route", "Iface\tDestination\tGateway\tFlags\nens5\t00000000\t0100000A\t0003\t0\t0\t100\n");
    const HostFacts facts = gather();
    EXPECT_EQ(facts.kernel, (KernelVersion{5, 10}));
    EXPECT_EQ(facts.ptrace_scope, 2);
    EXPECT_EQ(facts.free_huge_pages, 40u);
    EXPECT_EQ(facts.rdma_core, 52u);
    EXPECT_EQ(facts.routed, "ens5");
    put("/proc/net/route", "Iface\n");
    put("/proc/net/ipv6_route",
        std::string(32, '0') + " 00 " + std::string(32, '0') +
            " 00 fe800000000000000000000000000001 00000400 00000003 00000000 00000003    bond0\n");
    EXPECT_EQ(gather().routed, "bond0");
}

/// The machine's free pages are not a container's: its control group says how many bytes of them it may have.
TEST_F(HostFactsTest, HugePagesOfTheControlGroup) {
    put("/proc/meminfo", "HugePages_Free:       40\nHugepagesize:       2048 kB\n");
    EXPECT_EQ(gather().huge_page, std::uint64_t{2} << 20);
    EXPECT_EQ(gather().huge_page_limit, no_limit) << "there is no such file";
    put("/sys/fs/cgroup/hugetlb.1GB.max", "17\n");
    put("/sys/fs/cgroup/hugetlb/hugetlb.2MB.limit_in_bytes", "4194304\n");
    EXPECT_EQ(gather().huge_page_limit, 4194304u) << "of version 1";
    put("/sys/fs/cgroup/hugetlb.2MB.max", "0\n");
    EXPECT_EQ(gather().huge_page_limit, 0u);
    put("/sys/fs/cgroup/hugetlb.2MB.max", "max\n");
    EXPECT_EQ(gather().huge_page_limit, no_limit);
    put("/proc/self/cgroup", "5:hugetlb:/\n0::/kubepods.slice/pod7\n");
    put("/sys/fs/cgroup/kubepods.slice/pod7/hugetlb.2MB.max", "2097152\n");
    EXPECT_EQ(gather().huge_page_limit, 2097152u) << "of the group itself, where all groups are seen";
    put("/proc/meminfo", "HugePages_Free:       40\nHugepagesize:    1048576 kB\n");
    put("/proc/self/cgroup", "0::/\n");
    EXPECT_EQ(gather().huge_page_limit, 17u);
}

TEST_F(HostFactsTest, ATopologyFileThatHasNotBecomeTheMachine) {
    machine_.this_machine = true;
    EXPECT_EQ(gather().unread_topology, "");
    put("/proc/self/environ", std::string("HWLOC_XMLFILE=/no/such.xml\0A=b\0", 31));
    EXPECT_EQ(gather().unread_topology, "/no/such.xml");
    put("/proc/self/environ", std::string("HWLOC_XMLFILE=/some.xml\0HWLOC_THISSYSTEM=1\0", 43));
    EXPECT_EQ(gather().unread_topology, "");
    put("/proc/self/environ", std::string("HWLOC_XMLFILE=/some.xml\0", 24));
    machine_.this_machine = false;
    EXPECT_EQ(gather().unread_topology, "");
}

TEST_F(HostFactsTest, Containers) {
    put("/run/.containerenv");
    EXPECT_EQ(gather().container, "Podman");
    put("/.dockerenv");
    EXPECT_EQ(gather().container, "Docker");
    put("/var/run/secrets/kubernetes.io/serviceaccount/token");
    EXPECT_EQ(gather().container, "Kubernetes");
    fs::create_directories(root_ + "/dev/shm");
    EXPECT_TRUE(gather().free_shm);
    EXPECT_EQ(gather().wanted_shm, fabric::shm_bytes_wanted());
}

TEST_F(HostFactsTest, APodWithoutItsServiceAccountIsKnownByItsEnvironment) {
    put("/run/.containerenv");
    put("/proc/self/environ", std::string("KUBERNETES_SERVICE_HOST=10.0.0.1\0A=b\0", 37));
    EXPECT_EQ(gather().container, "Kubernetes");
}

TEST_F(HostFactsTest, Devices) {
    machine_.nics = {{"", {0, 0x4f, 0, 0}, 100, 0, true}, {"mlx5_0", {0, 0x50, 0, 1}, 100, 0, false}};
    const std::string pci = "/sys/bus/pci/devices/";
    put(pci + "0000:4f:00.0/infiniband_verbs/uverbs7/dev");
    put(pci + "0000:50:00.1/infiniband_verbs/uverbs1/dev");
    put("/sys/bus/pci/drivers/efa/bind");
    fs::create_symlink("../../drivers/efa", root_ + pci + "0000:4f:00.0/driver");
    put("/dev/infiniband/uverbs7");
    const HostFacts facts = gather();
    ASSERT_EQ(facts.devices.size(), 2u);
    EXPECT_EQ(facts.devices[0].name, "0000:4f:00.0");
    EXPECT_EQ(facts.devices[0].driver, "efa");
    EXPECT_EQ(facts.devices[0].node, "/dev/infiniband/uverbs7");
    EXPECT_TRUE(facts.devices[0].efa && facts.devices[0].present && facts.devices[0].usable);
    EXPECT_EQ(facts.devices[1].name, "mlx5_0");
    EXPECT_EQ(facts.devices[1].driver, "");
    EXPECT_EQ(facts.devices[1].node, "/dev/infiniband/uverbs1");
    EXPECT_FALSE(facts.devices[1].present || facts.devices[1].usable);
}

/// As a container's seccomp profile does it.
TEST_F(HostFactsTest, AFilterOfSystemCallsIsNoticed) {
    EXPECT_FALSE(in_child(test::forbid_process_vm, [&] { return gather().reads_memory; }));
}

TEST_F(HostFactsTest, AnotherUsersDeviceIsThereAndNotToBeUsed) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
    machine_.nics = {{"", {0, 0x4f, 0, 0}, 100, 0, true}};
    put("/sys/bus/pci/devices/0000:4f:00.0/infiniband_verbs/uverbs0/dev");
    put("/dev/infiniband/uverbs0");
    fs::permissions(root_, fs::perms(0755));
    fs::permissions(root_ + "/dev/infiniband/uverbs0", fs::perms(0600));
    const auto become_nobody = [] { return setuid(65534) == 0; };
    const auto device = [&] { return gather().devices.at(0); };
    EXPECT_TRUE(in_child(become_nobody, [&] { return device().present; }));
    EXPECT_FALSE(in_child(become_nobody, [&] { return device().usable; }));
    fs::permissions(root_ + "/dev/infiniband/uverbs0", fs::perms(0666));
    EXPECT_TRUE(in_child(become_nobody, [&] { return device().usable; }));
}

/// As where a control group forbids a device: a socket has rights and cannot be opened either.
TEST_F(HostFactsTest, ADeviceWithRightsThatCannotBeOpenedIsNotToBeUsed) {
    machine_.nics = {{"", {0, 0x4f, 0, 0}, 100, 0, true}};
    put("/sys/bus/pci/devices/0000:4f:00.0/infiniband_verbs/uverbs0/dev");
    fs::create_directories(root_ + "/dev/infiniband");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, (root_ + "/dev/infiniband/uverbs0").c_str(), sizeof(address.sun_path) - 1);
    const int bound = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(bind(bound, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    const VerbsDevice device = gather().devices.at(0);
    EXPECT_TRUE(device.present);
    EXPECT_FALSE(device.usable);
    EXPECT_EQ(device.refusal, std::strerror(ENXIO));
    close(bound);
}

TEST_F(HostFactsTest, SharedMemoryThatNobodyMayWriteTo) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
    fs::create_directories(root_ + "/dev/shm");
    fs::permissions(root_, fs::perms(0755));
    fs::permissions(root_ + "/dev/shm", fs::perms(0755));
    const auto become_nobody = [] { return setuid(65534) == 0; };
    EXPECT_FALSE(in_child(become_nobody, [&] { return gather().writes_shm; }));
    fs::permissions(root_ + "/dev/shm", fs::perms(01777));
    EXPECT_TRUE(in_child(become_nobody, [&] { return gather().writes_shm; }));
}

/// Of this machine, for what holds on every one.
TEST_F(HostFactsTest, Here) {
    const HostFacts facts = gather_facts("", machine_);
    EXPECT_GE(facts.kernel.major, 3u);
    EXPECT_TRUE(std::any_of(facts.interfaces.begin(), facts.interfaces.end(),
                            [](const fabric::NetworkInterface& interface) { return interface.loopback; }));
}

}  // namespace
}  // namespace railyard::tools
