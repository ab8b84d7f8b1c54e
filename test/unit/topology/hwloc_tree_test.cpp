#include "topology/hwloc_tree.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "common/status.h"
#include "unit/topology/topologies.h"

namespace railyard::topology {
namespace {

std::string set_of(unsigned cpus, unsigned nodes) {
    char text[128];
    std::snprintf(text, sizeof text,
                  R"( cpuset="0x%x" complete_cpuset="0x%x" nodeset="0x%x" complete_nodeset="0x%x")", cpus,
                  cpus, nodes, nodes);
    return text;
}

/// An XML file of a machine, gone after the test.
class XmlFile {
  public:
    /// With this inside its one package (NUMA node 0).
    explicit XmlFile(const std::string& inside, const std::string& after = "")
        : XmlFile(1, 1,
                  "<object type=\"Package\" gp_index=\"2\" os_index=\"0\"" + set_of(1, 1) +
                      "><object type=\"NUMANode\" gp_index=\"3\" os_index=\"0\" local_memory=\"4096\"" +
                      set_of(1, 1) + "/><object type=\"PU\" gp_index=\"4\" os_index=\"0\"" + set_of(1, 1) +
                      "/>" + inside + "</object>" + after) {}
    /// With these CPUs and NUMA nodes, by bits.
    XmlFile(unsigned cpus, unsigned nodes, const std::string& inside) : XmlFile(cpus, nodes, inside, cpus) {}
    /// The same, with some of the CPUs allowed.
    XmlFile(unsigned cpus, unsigned nodes, const std::string& inside, unsigned allowed_cpus)
        : path_(testing::TempDir() + "railyard_topology_" + std::to_string(getpid()) + ".xml") {
        std::ofstream(path_) << R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
<object type="Machine" gp_index="1" os_index="0" allowed_cpuset="0x)"
                             << std::hex << allowed_cpus << "\" allowed_nodeset=\"0x" << nodes << '"'
                             << set_of(cpus, nodes) << '>' << inside << "</object></topology>";
    }
    ~XmlFile() { std::remove(path_.c_str()); }
    XmlFile(const XmlFile&) = delete;
    XmlFile& operator=(const XmlFile&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
};

std::string host_bridge(const std::string& range, const std::string& inside) {
    static int index = 100;
    return "<object type=\"Bridge\" gp_index=\"" + std::to_string(index++) +
           "\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"" + range + "\">" + inside + "</object>";
}

std::string device(const std::string& address, const std::string& kind, const std::string& ids,
                   const std::string& inside = "", const std::string& link = "0.0") {
    static int index = 1000;
    return "<object type=\"PCIDev\" gp_index=\"" + std::to_string(index++) + "\" pci_busid=\"" + address +
           "\" pci_type=\"" + kind + " [" + ids + "] [0000:0000] 00\" pci_link_speed=\"" + link + "\">" +
           inside + "</object>";
}

std::string osdev(const std::string& name, int kind, const std::string& subtype = "",
                  const std::string& inside = "") {
    static int index = 10000;
    return "<object type=\"OSDev\" gp_index=\"" + std::to_string(index++) + "\" name=\"" + name +
           "\" osdev_type=\"" + std::to_string(kind) + "\"" +
           (subtype.empty() ? "" : " subtype=\"" + subtype + "\"") + ">" + inside + "</object>";
}

TEST(HwlocTree, GpusByWhateverTellsThem) {
    const std::string cpu = R"(<info name="OpenCLDeviceType" value="CPU"/>)";
    const XmlFile file(host_bridge(
        "0000:[01-09]",
        device("0000:01:00.0", "0302", "10de:2330") + device("0000:02:00.0", "0300", "10de:1db5") +
            device("0000:03:00.0", "1200", "1234:0001", osdev("cuda0", 5, "CUDA")) +
            device("0000:04:00.0", "1200", "1234:0002", osdev("opencl0d0", 5, "OpenCL")) +
            device("0000:05:00.0", "0300", "1234:1111") +  // a console
            device("0000:06:00.0", "1200", "1234:0003", osdev("opencl1d0", 5, "OpenCL", cpu)) +
            device("0000:07:00.0", "0604", "10de:1af1")));  // NVIDIA, a switch
    const Machine machine = read_machine(file.path());
    std::string found;
    for (const GpuDesc& gpu : machine.gpus)
        found += std::to_string(gpu.ordinal) + ":" + short_name(gpu.pci) + " ";
    EXPECT_EQ(found, "0:01 1:02 2:03 3:04 ");
}

TEST(HwlocTree, NicsByClassWithTheNameOfTheRdmaDevice) {
    const XmlFile file(host_bridge(
        "0000:[01-09]",
        device("0000:01:00.0", "0200", "15b3:1021", osdev("eth7", 2) + osdev("mlx5_0", 3), "63.015385") +
            device("0000:02:00.0", "0200", "8086:1521", osdev("eth0", 2), "0.5") +
            device("0000:03:00.0", "0207", "15b3:1021", osdev("mlx5_1", 3), "31.507692") +
            device("0000:04:00.0", "0200", "1d0f:efa2", osdev("rdmap4s0", 3)) +
            device("0000:05:00.0", "0200", "1d0f:efa0") +
            device("0000:07:00.0", "0200", "1d0f:efa1", "", "31.507692") +
            device("0000:06:00.0", "0108", "1d0f:cd01", osdev("nvme0n1", 0, "Disk"))));
    const Machine machine = read_machine(file.path());
    std::string found;
    for (const NicDesc& nic : machine.nics)
        found += nic.name + "@" + short_name(nic.pci) + "=" + std::to_string(static_cast<int>(nic.gbps)) +
                 (nic.efa ? "e " : " ");
    EXPECT_EQ(found, "mlx5_0@01=400 eth0@02=1 mlx5_1@03=200 rdmap4s0@04=200e @05=100e @07=200e ");
    for (const NicDesc& nic : machine.nics)
        EXPECT_EQ(nic.numa, 0);
}

TEST(HwlocTree, DomainsStayApart) {
    const std::string nic = device("0000:4f:00.0", "0200", "1d0f:efa1", osdev("rdmap79s0", 3));
    const std::string other = device("0001:4f:00.0", "0200", "1d0f:efa1", osdev("rdmap1p79s0", 3));
    const XmlFile file(host_bridge("0000:[4f-53]", nic + device("0000:53:00.0", "0302", "10de:2330")) +
                       host_bridge("0001:[4f-53]", other + device("0001:53:00.0", "0302", "10de:2330")));
    const Machine machine = read_machine(file.path());
    const std::vector<RailDesc> rails = efa_rails(machine);
    EXPECT_EQ(gpu_table(machine, rails, select_rails(machine, rails)), "53=4f 1/53=1/4f");
    EXPECT_EQ(machine.tree.at(machine.gpus.at(1).parent).pci, (PciAddress{1, 0x4f, 0, 0}));
}

TEST(HwlocTree, WhatHangsOnTheMachineHasNoNode) {
    const XmlFile file("", host_bridge("0000:[00-00]", device("0000:00:1f.0", "0200", "1d0f:efa0")));
    const Machine machine = read_machine(file.path());
    ASSERT_EQ(machine.nics.size(), 1u);
    EXPECT_EQ(machine.numa.size(), 1u);
    EXPECT_EQ(machine.nics[0].numa, 0) << "one node: there is no other";
    EXPECT_EQ(read_machine(topology_file("c5n.18xl")).nics.back().numa, unknown_numa);
}

/// Packages 0 and 1 with NUMA nodes 0 and 1 for their CPUs. More memory is in nodes 2 and 3 on the first and
/// 4 and 5 on the second, whose CPUs are the package's or none, with this subtype. A NIC and a GPU on each.
std::string package_with_more_memory(unsigned number, bool cpus_of_package, const std::string& subtype) {
    const unsigned cpu = 1u << number, more = 2 + 2 * number;
    const auto object = [](const std::string& type, unsigned index, const std::string& attributes) {
        static int count = 100'000;
        return "<object type=\"" + type + "\" gp_index=\"" + std::to_string(count++) + "\" os_index=\"" +
               std::to_string(index) + "\"" + attributes;
    };
    std::string text = object("Package", number, set_of(cpu, cpu | 3u << more) + ">") +
                       object("NUMANode", number, set_of(cpu, cpu) + " local_memory=\"4096\"/>");
    for (unsigned node = more; node < more + 2; ++node) {
        text += object("NUMANode", node,
                       set_of(cpus_of_package ? cpu : 0, 1u << node) + " local_memory=\"4096\"" +
                           (subtype.empty() ? "" : " subtype=\"" + subtype + "\"") + "/>");
    }
    const std::string bus = number ? "2" : "1";
    return text + object("PU", number, set_of(cpu, cpu | 3u << more) + "/>") +
           host_bridge("0000:[" + bus + "0-" + bus + "2]",
                       device("0000:" + bus + "1:00.0", "0207", "15b3:1021", osdev("mlx5_" + bus, 3)) +
                           device("0000:" + bus + "2:00.0", "0302", "10de:2941")) +
           "</object>";
}

/// GH200 and GB200, Xeon Max in flat mode, CXL memory: hwloc says what it is, or does not.
TEST(HwlocTree, MemoryWithoutCpusOfItsOwnIsNoOtherNode) {
    for (const auto& [of_package, subtype] :
         {std::pair{true, "GPUMemory"}, std::pair{false, "GPUMemory"}, std::pair{true, "HBM"},
          std::pair{true, "CXL-DRAM"}, std::pair{true, ""}, std::pair{false, ""}}) {
        const XmlFile file(3, 0x3f,
                           package_with_more_memory(0, of_package, subtype) +
                               package_with_more_memory(1, of_package, subtype));
        const Machine machine = read_machine(file.path());
        EXPECT_EQ(machine.numa.size(), 6u);
        ASSERT_EQ(machine.nics.size(), 2u);
        ASSERT_EQ(machine.gpus.size(), 2u);
        for (int package = 0; package < 2; ++package) {
            const auto at = static_cast<std::size_t>(package);
            EXPECT_EQ(machine.nics[at].numa, package) << subtype << of_package;
            EXPECT_EQ(machine.gpus[at].numa, package) << subtype << of_package;
        }
    }
}

/// A container with the CPUs of one package: the devices of the other one are where they were.
TEST(HwlocTree, DevicesKeepTheirNodeWhereItsCpusMayNotBeUsed) {
    for (const char* subtype : {"GPUMemory", ""}) {
        const XmlFile file(
            3, 0x3f,
            package_with_more_memory(0, false, subtype) + package_with_more_memory(1, false, subtype), 1);
        const Machine machine = read_machine(file.path());
        ASSERT_EQ(machine.nics.size(), 2u);
        ASSERT_EQ(machine.gpus.size(), 2u);
        EXPECT_EQ(machine.nics[0].numa, 0);
        EXPECT_EQ(machine.nics[1].numa, 1) << subtype;
        EXPECT_EQ(machine.gpus[1].numa, 1) << subtype;
        ASSERT_GT(machine.numa.size(), 1u);
        EXPECT_EQ(machine.numa[0].cpus, std::vector<int>{0});
        EXPECT_EQ(machine.numa[1].cpus, std::vector<int>{});
    }
}

TEST(HwlocTree, WithoutIo) {
    const XmlFile file("");
    const Machine machine = read_machine(file.path());
    EXPECT_TRUE(machine.nics.empty());
    EXPECT_TRUE(machine.gpus.empty());
    ASSERT_EQ(machine.numa.size(), 1u);
    EXPECT_EQ(machine.numa[0].memory, 4096u);
}

void expect_refused(const std::string& path) {
    try {
        (void)read_machine(path);
        FAIL() << path;
    } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::invalid_param);
        EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    }
}

TEST(HwlocTree, UnreadableFilesAreNamed) {
    expect_refused("/no/such/file.xml");
    expect_refused("/");
    const std::string path = testing::TempDir() + "railyard_no_topology_" + std::to_string(getpid()) + ".xml";
    for (const char* text :
         {"", "nothing",
          "<?xml version=\"1.0\"?>\n<topology version=\"2.0\">\n<object type=\"Foo\"/>\n</topology>",
          "<?xml version=\"1.0\"?><html/>", "<?xml version=\"1.0\"?>\n<topology version=\"2.0\"><object "}) {
        std::ofstream(path) << text;
        expect_refused(path);
    }
    std::remove(path.c_str());
}

TEST(HwlocTree, ThisMachine) {
    const Machine machine = read_machine();
    EXPECT_FALSE(machine.tree.empty());
    EXPECT_FALSE(machine.numa.empty());
    std::vector<RailDesc> rails = {{"lo", std::nullopt, 0}};
    for (const NicDesc& nic : machine.nics)
        rails.push_back({nic.name, nic.pci, 0});
    const RailMap map = select_rails(machine, rails);
    for (const std::vector<std::size_t>& list : map.by_gpu)
        EXPECT_FALSE(list.empty());
    for (const NumaNode& node : machine.numa)
        EXPECT_FALSE(map.by_numa.at(static_cast<std::size_t>(node.node)).empty());
}

TEST(RateOfLink, IsTheFastestRateThatFits) {
    EXPECT_EQ(rate_of_link(0), 0);
    EXPECT_EQ(rate_of_link(15.753846), 100);
    EXPECT_EQ(rate_of_link(31.507692), 200);
    EXPECT_EQ(rate_of_link(63.015385), 400);
    EXPECT_EQ(rate_of_link(126.03), 800);
    EXPECT_EQ(rate_of_link(7.876923), 50);
}

}  // namespace
}  // namespace railyard::topology
