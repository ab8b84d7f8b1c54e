// What is said of machines that are not here.
#include "tools/doctor/diagnosis.h"

#include <gtest/gtest.h>
#include <rdma/fabric.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace railyard::tools {
namespace {

constexpr fabric::AddressKind ipv4 = fabric::AddressKind::ipv4, no_address = fabric::AddressKind::none;
const VerbsDevice good_efa{"rdmap79s0", true, "efa", "/dev/infiniband/uverbs0", true, true};

/// A machine with one EFA, on which all is well.
struct Case {
    Case() {
        facts.kernel = {6, 8};
        facts.rdma_core = 52;
        facts.memlock = no_limit;
        facts.files = 1024;
        facts.free_huge_pages = 512;
        facts.free_shm = std::uint64_t{1} << 30;
        facts.devices = {good_efa};
        facts.interfaces = {{"lo", true, true, ipv4}, {"eth0", true, false, ipv4}};
        facts.routed = "eth0";
        facts.headers = facts.library = FI_VERSION(2, 1);
        survey.family = "efa-direct";
        RailRow rail;
        rail.name = "rdmap79s0";
        rail.state = "up";
        rail.gpu_memory = true;
        survey.rails = {rail};
    }
    /// The same over tcp, without an EFA.
    static Case over_tcp(const std::string& interface) {
        Case made;
        made.facts.devices.clear();
        made.survey.family = "tcp";
        made.survey.rails.front().name = interface;
        return made;
    }
    /// The same over shm, which auto has taken.
    static Case over_shm() {
        Case made = over_tcp("shm");
        made.survey.family = "shm";
        made.survey.unasked = true;
        return made;
    }
    /// All findings of a check that are worse than ok.
    [[nodiscard]] std::vector<Finding> troubles(const std::string& check) const {
        std::vector<Finding> found = diagnose(facts, survey);
        std::erase_if(found, [&](const Finding& finding) {
            return finding.check != check || finding.severity == Severity::ok;
        });
        return found;
    }
    HostFacts facts;
    Survey survey;
};

/// One finding of that check, as bad as that; its words and its remedy name these.
void expect_one(const Case& machine, const std::string& check, Severity severity, const std::string& what,
                const std::string& remedy) {
    const std::vector<Finding> found = machine.troubles(check);
    ASSERT_EQ(found.size(), 1u) << diagnosis_text(diagnose(machine.facts, machine.survey));
    EXPECT_EQ(found[0].severity, severity) << found[0].what;
    EXPECT_NE(found[0].what.find(what), std::string::npos) << found[0].what;
    EXPECT_NE(found[0].remedy.find(remedy), std::string::npos) << found[0].remedy;
    EXPECT_EQ(worst_of(diagnose(machine.facts, machine.survey)), severity);
}

TEST(Diagnosis, FindsNothingWhereAllIsWell) {
    const Case machine;
    const std::vector<Finding> findings = diagnose(machine.facts, machine.survey);
    EXPECT_EQ(worst_of(findings), Severity::ok) << diagnosis_text(findings);
    for (const char* check :
         {"device", "libfabric", "rails", "files", "memlock", "fork", "huge-pages", "ptrace", "shm"}) {
        EXPECT_TRUE(std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
            return finding.check == check;
        })) << check;
    }
    EXPECT_EQ(worst_of({}), Severity::ok);
}

TEST(Diagnosis, Devices) {
    Case machine;
    VerbsDevice& device = machine.facts.devices.front();
    device.usable = false;
    expect_one(machine, "device", Severity::error, "may not read and write /dev/infiniband/uverbs0",
               "rights");
    device.refusal = "Operation not permitted";
    expect_one(machine, "device", Severity::error,
               "/dev/infiniband/uverbs0 cannot be opened: Operation not permitted", "DeviceAllow=");
    machine.facts.container = "Docker";
    expect_one(machine, "device", Severity::error, "Operation not permitted", "--device /dev/infiniband");
    machine.facts.container.clear();
    device.present = false;
    expect_one(machine, "device", Severity::error, "/dev/infiniband/uverbs0 is not here", "udev");
    machine.facts.container = "Docker";
    expect_one(machine, "device", Severity::error, "not here", "--device /dev/infiniband");
    machine.facts.container = "Kubernetes";
    expect_one(machine, "device", Severity::error, "not here", "vpc.amazonaws.com/efa");
    device.node.clear();
    expect_one(machine, "device", Severity::error, "no verbs device", "ib_uverbs");
    device.driver.clear();
    expect_one(machine, "device", Severity::error, "rdmap79s0 has no driver", "modprobe efa");
}

TEST(Diagnosis, ManyDevicesWithOneTroubleAreOneFinding) {
    Case machine;
    for (int i = 1; i < 32; ++i) {
        machine.facts.devices.push_back(good_efa);
        machine.facts.devices.back().name = "rdmap" + std::to_string(100 + i) + "s0";
    }
    for (VerbsDevice& device : machine.facts.devices)
        device.driver.clear();
    expect_one(machine, "device", Severity::error,
               "32 devices have no driver: rdmap79s0, rdmap101s0, rdmap102s0, rdmap103s0 and 28 more",
               "modprobe efa");
    for (VerbsDevice& device : machine.facts.devices)
        device = {device.name, true, "efa", "/dev/infiniband/uverbs0", true, false};
    machine.facts.devices.resize(2);
    expect_one(machine, "device", Severity::error,
               "2 devices have files that this user may not read and write: rdmap79s0, rdmap101s0", "rights");
}

TEST(Diagnosis, ATopologyFileThatIsNotReadIsNamed) {
    Case machine;
    machine.facts.unread_topology = "/no/such.xml";
    expect_one(machine, "topology", Severity::warning, "\"/no/such.xml\", which cannot be read",
               "lstopo --of xml");
}

TEST(Diagnosis, TheEnvironmentOfLibfabricIsNamedWhereSomethingIsMissing) {
    Case machine;
    machine.facts.fi_provider = "sockets";
    EXPECT_TRUE(machine.troubles("rails").empty()) << "nothing is missing";
    machine.survey.rails.clear();
    machine.survey.trouble = "no usable device; libfabric offers: nothing";
    expect_one(machine, "rails", Severity::error, "offers: nothing", "unset FI_PROVIDER (\"sockets\" here)");
    machine.facts.fi_provider.clear();
    machine.facts.fi_provider_path = "/no/such";
    expect_one(machine, "rails", Severity::error, "offers: nothing", "unset FI_PROVIDER_PATH (\"/no/such\"");
    machine.facts.fi_tcp_iface = "ib0";
    expect_one(machine, "rails", Severity::error, "offers: nothing", "unset FI_TCP_IFACE (\"ib0\" here)");
    machine.survey.family = "tcp";
    machine.facts.fi_efa_iface = "rdmap9s0";
    const std::string remedy = machine.troubles("libfabric").at(0).remedy;
    EXPECT_NE(remedy.find("unset FI_PROVIDER_PATH"), std::string::npos);
    EXPECT_NE(remedy.find("unset FI_EFA_IFACE (\"rdmap9s0\""), std::string::npos);
    EXPECT_EQ(remedy.find("FI_TCP_IFACE"), std::string::npos) << "that says nothing of EFAs";
}

TEST(Diagnosis, Libfabric) {
    Case machine;
    machine.survey.family = "tcp";
    machine.survey.rails.front().name = "eth0";
    expect_one(machine, "libfabric", Severity::error, "does not offer the EFAs", "/opt/amazon/efa");
    machine.survey.offers_efa = true;
    EXPECT_TRUE(machine.troubles("libfabric").empty()) << "it does, and another family was asked for";
    machine.facts.headers = FI_VERSION(1, 17);
    expect_one(machine, "libfabric", Severity::warning, "no efa-direct", "-Dlibfabric_path=");
    expect_one(machine, "libfabric", Severity::warning, "2.1, built with the headers of 1.17",
               "/opt/amazon/efa");
    machine.facts.library = FI_VERSION(1, 17);
    expect_one(machine, "libfabric", Severity::warning, "before 1.18", "/opt/amazon/efa");
    machine.facts.headers = machine.facts.library = FI_VERSION(1, 18);
    EXPECT_TRUE(machine.troubles("libfabric").empty());
    machine.facts.library = FI_VERSION(2, 1);
    expect_one(machine, "libfabric", Severity::note, "headers of 1.18: what came between", "/opt/amazon/efa");
    machine.facts.devices.clear();
    machine.facts.headers = FI_VERSION(1, 17);
    expect_one(machine, "libfabric", Severity::note, "headers of 1.17: what came between",
               "-Dlibfabric_path=DIRECTORY");
    machine.facts.library = FI_VERSION(1, 17);
    EXPECT_TRUE(machine.troubles("libfabric").empty()) << "that concerns EFA alone";
    machine.facts.library = FI_VERSION(1, 15);
    expect_one(machine, "libfabric", Severity::warning, "older", "-Dlibfabric_path");
}

const VerbsDevice withheld{
    "mlx5_0", false, "mlx5_core", "/dev/infiniband/uverbs1", true, false, "Operation not permitted"};

/// One device that cannot be opened costs libfabric every EFA: what is said is that, and not that libfabric
/// has no provider.
TEST(Diagnosis, ADeviceThatIsWithheldHidesTheEfas) {
    Case machine;
    machine.survey.family = "tcp";
    machine.facts.devices.push_back(withheld);
    for (const char* container : {"", "Docker", "Kubernetes"}) {
        machine.facts.container = container;
        expect_one(machine, "libfabric", Severity::error, "mlx5_0 (/dev/infiniband/uverbs1) cannot be opened",
                   "no hostPath of the whole directory");
        expect_one(machine, "libfabric", Severity::error, "#12708", "#12744");
        EXPECT_EQ(machine.troubles("libfabric").at(0).remedy.find("/opt/amazon"), std::string::npos);
        expect_one(machine, "device", Severity::error, "cannot be opened: Operation not permitted",
                   "keep its file out of the container, too");
    }
    machine.facts.devices.back().refusal.clear();
    expect_one(machine, "libfabric", Severity::error, "mlx5_0", "let this user open such devices");
    machine.facts.devices.back().present = false;
    expect_one(machine, "libfabric", Severity::error, "does not offer the EFAs", "/opt/amazon/efa");
}

TEST(Diagnosis, ADeviceThatIsNoEfaHidesThemFromOldLibraries) {
    Case machine;
    machine.survey.family = "tcp";
    machine.facts.devices.push_back(withheld);
    machine.facts.devices.back().usable = true;
    machine.facts.devices.back().refusal.clear();
    expect_one(machine, "libfabric", Severity::error, "mlx5_0 (/dev/infiniband/uverbs1) is no EFA",
               "libfabric 2.2 or later");
    machine.facts.library = machine.facts.headers = FI_VERSION(2, 2);
    expect_one(machine, "libfabric", Severity::error, "does not offer the EFAs", "/opt/amazon/efa");
}

/// With an EFA that can be used, others may be left out on purpose; and nobody is to pass all of them in.
TEST(Diagnosis, DevicesThatAreLeftOutOnPurpose) {
    Case machine;
    machine.facts.container = "Docker";
    machine.facts.devices.push_back(withheld);
    expect_one(machine, "device", Severity::note, "cannot be opened", "keep its file out of the container");
    machine.facts.devices.back() = {"mlx5_0", false, "mlx5_core", "/dev/infiniband/uverbs1", false, false};
    expect_one(machine, "device", Severity::note, "is not here", "nothing, where it is left out on purpose");
    expect_one(machine, "device", Severity::note, "is not here", "uverbsN for each EFA");
    machine.facts.devices.erase(machine.facts.devices.begin());
    machine.survey.family = "tcp";
    EXPECT_EQ(machine.troubles("device").at(0).severity, Severity::error);
    EXPECT_EQ(machine.troubles("device").at(0).remedy, "start the container with --device /dev/infiniband");
}

TEST(Diagnosis, Rails) {
    Case machine;
    machine.survey.rails.front().state = "down";
    expect_one(machine, "rails", Severity::warning, "link is down", "devices=^rdmap79s0");
    machine.survey.rails.clear();
    machine.survey.trouble = "no usable device for provider \"efa\"";
    expect_one(machine, "rails", Severity::error, "no usable device", "fi_info -l");
}

TEST(Diagnosis, Memory) {
    Case machine;
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
    Case machine;
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
    Case machine;
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
    Case machine;
    machine.survey.rails.resize(32, machine.survey.rails.front());
    machine.facts.files = 256;
    expect_one(machine, "files", Severity::warning, "only 256 files may be open", "ulimit -n");
    machine.facts.files = 1024;
    EXPECT_TRUE(machine.troubles("files").empty());
    Case tcp = Case::over_tcp("eth0");
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
    Case machine;
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

TEST(Diagnosis, Gpus) {
    Case machine;
    machine.survey.machine.gpus.resize(2);
    expect_one(machine, "gpu", Severity::warning, "2 GPUs on the bus", "nvidia-smi");
    machine.survey.cuda.emplace();
    machine.survey.cuda->absent_because = "libcuda.so.1 is not there";
    expect_one(machine, "gpu", Severity::warning, "libcuda.so.1 is not there", "--gpus all");
    machine.survey.cuda->gpus.resize(2);
    EXPECT_TRUE(machine.troubles("gpu").empty());
    machine.survey.rails.front().gpu_memory = false;
    expect_one(machine, "gpu", Severity::warning, "0 of 1 rails", "nvidia-peermem");
}

TEST(Diagnosis, ProcessesOfOneHost) {
    Case machine;
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
    machine.facts.free_shm = 64 << 20;
    EXPECT_TRUE(machine.troubles("shm").empty());
    machine.facts.free_shm = 63 << 20;
    expect_one(machine, "shm", Severity::warning, "only 63 MiB", "mount");
    machine.facts.writes_shm = false;
    expect_one(machine, "shm", Severity::warning, "may not make files in /dev/shm", "chmod 1777");
    machine.facts.free_shm.reset();
    machine.facts.container = "Podman";
    expect_one(machine, "shm", Severity::warning, "no /dev/shm", "--shm-size");
}

TEST(Diagnosis, Interfaces) {
    Case routed = Case::over_tcp("eth0");
    EXPECT_TRUE(routed.troubles("tcp-interface").empty());
    routed.facts.routed.clear();
    EXPECT_TRUE(routed.troubles("tcp-interface").empty()) << "there is no other";
    routed.facts.interfaces.push_back({"eno1", true, false, no_address});
    EXPECT_TRUE(routed.troubles("tcp-interface").empty()) << "that one is of no use";
    routed.facts.interfaces.push_back({"eth1", true, false, ipv4});
    routed.facts.interfaces.push_back({"eth2", false, false, ipv4});
    expect_one(routed, "tcp-interface", Severity::note, "no default route", "devices=NAME (eth0, eth1)");
    expect_one(Case::over_tcp("lo"), "tcp-interface", Severity::warning, "lo reaches this machine alone",
               "devices=NAME (eth0)");
    Case told = Case::over_tcp("lo");
    told.facts.fi_tcp_iface = "ib0";
    expect_one(told, "tcp-interface", Severity::warning, "lo reaches", "unset FI_TCP_IFACE (\"ib0\" here)");
    Case bridge = Case::over_tcp("docker0");
    bridge.facts.interfaces.push_back({"docker0", true, false, ipv4});
    expect_one(bridge, "tcp-interface", Severity::warning, "docker0 is a bridge", "devices=NAME (eth0)");
    Case other = Case::over_tcp("ib0");
    other.facts.interfaces.push_back({"ib0", true, false, ipv4});
    const std::vector<Finding> findings = diagnose(other.facts, other.survey);
    EXPECT_EQ(findings.back().what, "ib0; the default route's is eth0");
}

TEST(Diagnosis, ShmThatNobodyAskedForReachesNoOtherMachine) {
    Case machine = Case::over_shm();
    expect_one(machine, "rails", Severity::warning, "1 rail over shm: no other machine is reached",
               "provider=shm");
    expect_one(machine, "rails", Severity::warning, "tcp on no interface (eth0)", "fi_info -l");
    machine.facts.fi_tcp_iface = "ib0";
    machine.facts.fi_net_iface = "ib1";
    machine.facts.fi_verbs_iface = "ib2";
    machine.facts.fi_efa_iface = "rdmap9s0";
    for (const char* part : {"unset FI_TCP_IFACE (\"ib0\" here)", "unset FI_NET_IFACE (\"ib1\" here)",
                             "unset FI_VERBS_IFACE (\"ib2\" here)"})
        expect_one(machine, "rails", Severity::warning, "no other machine is reached", part);
    EXPECT_EQ(machine.troubles("rails").at(0).remedy.find("FI_EFA_IFACE"), std::string::npos);
    machine.survey.unasked = false;
    EXPECT_TRUE(machine.troubles("rails").empty()) << "shm was asked for";
}

TEST(Diagnosis, ShmWithoutANetworkIsANote) {
    Case machine = Case::over_shm();
    machine.facts.interfaces = {
        {"lo", true, true, ipv4}, {"docker0", true, false, ipv4}, {"eno1", true, false, no_address}};
    expect_one(machine, "rails", Severity::note, "no network interface is up with an address",
               "provider=shm");
}

TEST(Diagnosis, Reports) {
    const std::vector<Finding> findings{{Severity::ok, "rails", "2 rails", ""},
                                        {Severity::warning, "shm", "few\xff", "more"}};
    EXPECT_EQ(
        diagnosis_text(findings),
        "ok       rails: 2 rails\nwarning  shm: few\xff\n         -> more\n0 errors, 1 warning, 0 notes\n");
    const auto json = nlohmann::json::parse(diagnosis_json(findings));
    EXPECT_EQ(json.at("version"), 1);
    EXPECT_EQ(json.at("worst"), "warning");
    EXPECT_EQ(
        json.at("findings").at(0),
        (nlohmann::json{{"check", "rails"}, {"severity", "ok"}, {"what", "2 rails"}, {"remedy", nullptr}}));
    EXPECT_EQ(json.at("findings").at(1).at("remedy"), "more");
}

}  // namespace
}  // namespace railyard::tools
