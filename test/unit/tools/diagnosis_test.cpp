// What is said of machines that are not here.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "examined_machine.h"

namespace railyard::tools {
namespace {

TEST(Diagnosis, FindsNothingWhereAllIsWell) {
    const Machine machine;
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
    Machine machine;
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
    Machine machine;
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
    Machine machine;
    machine.facts.unread_topology = "/no/such.xml";
    expect_one(machine, "topology", Severity::warning, "\"/no/such.xml\", which cannot be read",
               "lstopo --of xml");
}

TEST(Diagnosis, TheEnvironmentOfLibfabricIsNamedWhereSomethingIsMissing) {
    Machine machine;
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
    Machine machine;
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
    Machine machine;
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
    Machine machine;
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
    Machine machine;
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
    Machine machine;
    machine.survey.rails.front().state = "down";
    expect_one(machine, "rails", Severity::warning, "link is down", "devices=^rdmap79s0");
    machine.survey.rails.clear();
    machine.survey.trouble = "no usable device for provider \"efa\"";
    expect_one(machine, "rails", Severity::error, "no usable device", "fi_info -l");
}

TEST(Diagnosis, Gpus) {
    Machine machine;
    machine.survey.machine.gpus.resize(2);
    expect_one(machine, "gpu", Severity::warning, "2 GPUs on the bus", "nvidia-smi");
    machine.survey.cuda.emplace();
    machine.survey.cuda->absent_because = "libcuda.so.1 is not there";
    expect_one(machine, "gpu", Severity::warning, "libcuda.so.1 is not there", "--gpus all");
    machine.survey.cuda->gpus.resize(2);
    EXPECT_TRUE(machine.troubles("gpu").empty());
    machine.survey.rails.front().gpu_memory = false;
    expect_one(machine, "gpu", Severity::warning, "0 of 1 rails", "nvidia-peermem");
    machine.facts.cuda_runtime = false;
    expect_one(machine, "gpu", Severity::warning, "0 of 1 rails", "libcudart.so.12");
}

TEST(Diagnosis, Interfaces) {
    Machine routed = Machine::over_tcp("eth0");
    EXPECT_TRUE(routed.troubles("tcp-interface").empty());
    routed.facts.routed.clear();
    EXPECT_TRUE(routed.troubles("tcp-interface").empty()) << "there is no other";
    routed.facts.interfaces.push_back({"eno1", true, false, no_address});
    EXPECT_TRUE(routed.troubles("tcp-interface").empty()) << "that one is of no use";
    routed.facts.interfaces.push_back({"eth1", true, false, ipv4});
    routed.facts.interfaces.push_back({"eth2", false, false, ipv4});
    expect_one(routed, "tcp-interface", Severity::note, "no default route", "devices=NAME (eth0, eth1)");
    expect_one(Machine::over_tcp("lo"), "tcp-interface", Severity::warning, "lo reaches this machine alone",
               "devices=NAME (eth0)");
    Machine told = Machine::over_tcp("lo");
    told.facts.fi_tcp_iface = "ib0";
    expect_one(told, "tcp-interface", Severity::warning, "lo reaches", "unset FI_TCP_IFACE (\"ib0\" here)");
    Machine bridge = Machine::over_tcp("docker0");
    bridge.facts.interfaces.push_back({"docker0", true, false, ipv4});
    expect_one(bridge, "tcp-interface", Severity::warning, "docker0 is a bridge", "devices=NAME (eth0)");
    Machine other = Machine::over_tcp("ib0");
    other.facts.interfaces.push_back({"ib0", true, false, ipv4});
    const std::vector<Finding> findings = diagnose(other.facts, other.survey);
    EXPECT_EQ(findings.back().what, "ib0; the default route's is eth0");
}

TEST(Diagnosis, ShmThatNobodyAskedForReachesNoOtherMachine) {
    Machine machine = Machine::over_shm();
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
    Machine machine = Machine::over_shm();
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
