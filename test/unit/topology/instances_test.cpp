// Every instance type that rail selection was made for: from its XML to who serves whom.
#include <gtest/gtest.h>

#include <algorithm>

#include "topology/distance.h"
#include "unit/topology/topologies.h"

namespace railyard::topology {
namespace {

struct Row {
    const char* name;
    std::size_t efas;
    double gbps;
    const char* gpus;          ///< "bus[:device]=rails ..."
    std::size_t host_rails;    ///< of each range on a NUMA node
    std::size_t far_gpus = 0;  ///< notes of GPUs without a NIC on their way up
    double far_gbps = 0;       ///< of EFAs that are beside no GPU; 0: as all others
};

constexpr Row rows[] = {
    {"p3dn.24xl", 1, 100,
     "00:16=00:15 00:17=00:15 00:18=00:15 00:19=00:15 00:1a=00:15 00:1b=00:15 00:1c=00:15 00:1d=00:15", 1},
    {"g5.48xl", 1, 100,
     "00:16=00:15 00:17=00:15 00:18=00:15 00:19=00:15 00:1a=00:15 00:1b=00:15 00:1c=00:15 00:1d=00:15", 1},
    {"p4d.24xl", 4, 100,
     "10:1c=10:1b 10:1d=10:1b 20:1c=20:1b 20:1d=20:1b 90:1c=90:1b 90:1d=90:1b a0:1c=a0:1b a0:1d=a0:1b", 4},
    {"p5.48xl", 32, 100,
     "53=4f,50,51,52 64=60,61,62,63 75=71,72,73,74 86=82,83,84,85 97=93,94,95,96 a8=a4,a5,a6,a7 "
     "b9=b5,b6,b7,b8 "
     "ca=c6,c7,c8,c9",
     4},
    {"p5en.48xl", 16, 200, "59=55,56 5a=57,58 72=6e,6f 73=70,71 8b=87,88 8c=89,8a a4=a0,a1 a5=a2,a3", 4},
    {"p6-b200.48xl", 8, 400, "51=4f 52=50 62=60 63=61 75=71 76=72 86=84 87=85", 2},
    {"g6.48xl", 1, 100, "9f=96 a1=96 a3=96 a5=96 ae=96 b0=96 b2=96 b4=96", 1, 1},
    {"gb200", 4, 400, "8/01=01,2/01 9/01=01,2/01 18/01=10/01,12/01 19/01=10/01,12/01", 2, 2},
    {"p6e-gb200.36xl", 16, 400, "29=27,28 3f=3d,3e 9c=9a,9b b2=b0,b1", 2, 0, 200},
    {"c5n.18xl", 1, 100, "", 1},
};

std::string test_name(std::string name) {
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c == '.' || c == '-'; }, '_');
    return name;
}

class Instances : public testing::TestWithParam<Row> {
  protected:
    const Row& row = GetParam();
    const Machine machine = read_machine(topology_file(row.name));
    const std::vector<RailDesc> rails = efa_rails(machine);
    const RailMap map = select_rails(machine, rails);
};

TEST_P(Instances, HasItsEfas) {
    EXPECT_EQ(rails.size(), row.efas);
    for (const NicDesc& nic : machine.nics) {
        if (!nic.efa) continue;
        const bool far = row.far_gbps > 0 &&
                         std::none_of(machine.gpus.begin(), machine.gpus.end(), [&](const GpuDesc& gpu) {
                             return closeness(machine, gpu, nic) == Closeness::pci_switch;
                         });
        EXPECT_EQ(nic.gbps, far ? row.far_gbps : row.gbps) << nic.name;
        const std::string domain = nic.pci.domain ? "P" + std::to_string(nic.pci.domain) : "";
        EXPECT_EQ(nic.name,
                  "rdma" + domain + "p" + std::to_string(nic.pci.bus) + "s" + std::to_string(nic.pci.device));
    }
    EXPECT_FALSE(machine.this_machine);
    EXPECT_EQ(machine.numa.size(), 2u);
}

TEST_P(Instances, GpusHaveTheirRails) {
    EXPECT_EQ(gpu_table(machine, rails, map), row.gpus);
}

TEST_P(Instances, HostMemoryHasItsRails) {
    ASSERT_EQ(map.by_numa.size(), 2u);
    for (const RailWindows& node : map.by_numa) {
        for (const std::vector<std::size_t>& window : node) {
            EXPECT_GE(window.size(), row.host_rails);
            EXPECT_LE(window.size(), row.host_rails + (row.far_gbps > 0 ? 1 : 0)) << "of slower ones";
        }
    }
    if (row.efas <= row.host_rails) return;
    // More NICs than needed: all of them on the memory's own node, each in one window.
    for (const NumaNode& node : machine.numa) {
        const RailWindows& windows = map.by_numa.at(static_cast<std::size_t>(node.node));
        if (row.far_gbps == 0) {
            EXPECT_EQ(windows.size() * row.host_rails, row.efas / 2);
        }
        EXPECT_EQ(rails_in(windows).size(), row.efas / 2);
        for (const std::size_t rail : rails_in(windows))
            EXPECT_EQ(nic_at(machine, rails[rail].pci)->numa, node.node) << rails[rail].name;
    }
}

TEST_P(Instances, SpeedsFromLibfabricChangeNothing) {
    std::vector<RailDesc> fast = rails;
    for (RailDesc& rail : fast)
        rail.gbps = nic_at(machine, rail.pci)->gbps;
    const RailMap other = select_rails(machine, fast);
    EXPECT_EQ(other.by_gpu, map.by_gpu);
    EXPECT_EQ(other.by_numa, map.by_numa);
}

TEST_P(Instances, FarGpusAreSaidOnce) {
    EXPECT_EQ(map.notes.size(), row.far_gpus);
    EXPECT_EQ(map.gpu_reasons.size(), map.by_gpu.size());
    EXPECT_EQ(map.numa_reasons.size(), map.by_numa.size());
}

TEST_P(Instances, SeveralRailsOnADeviceStayTogether) {
    std::vector<RailDesc> twice;
    for (const RailDesc& rail : rails)
        twice.insert(twice.end(), 2, rail);
    const RailMap other = select_rails(machine, twice);
    auto doubled = [](const std::vector<std::vector<std::size_t>>& lists) {
        std::vector<std::vector<std::size_t>> result;
        for (const std::vector<std::size_t>& list : lists) {
            result.emplace_back();
            for (const std::size_t rail : list) {
                result.back().push_back(2 * rail);
                result.back().push_back(2 * rail + 1);
            }
        }
        return result;
    };
    EXPECT_EQ(other.by_gpu, doubled(map.by_gpu));
    ASSERT_EQ(other.by_numa.size(), map.by_numa.size());
    for (std::size_t node = 0; node < map.by_numa.size(); ++node)
        EXPECT_EQ(other.by_numa[node], doubled(map.by_numa[node]));
}

INSTANTIATE_TEST_SUITE_P(All, Instances, testing::ValuesIn(rows),
                         [](const auto& tested) { return test_name(tested.param.name); });

class Captures : public testing::TestWithParam<const char*> {};

/// The topologies of our own making lead to what those of real machines lead to.
TEST_P(Captures, AgreeWithOurs) {
    const std::string path = capture_file(GetParam());
    if (path.empty()) GTEST_SKIP() << "no capture of " << GetParam() << " here";
    const Machine real = read_machine(path);
    const Machine ours = read_machine(topology_file(GetParam()));
    const std::vector<RailDesc> real_rails = efa_rails(real);
    const std::vector<RailDesc> rails = efa_rails(ours);
    const RailMap real_map = select_rails(real, real_rails);
    const RailMap map = select_rails(ours, rails);
    EXPECT_EQ(gpu_table(real, real_rails, real_map), gpu_table(ours, rails, map));
    EXPECT_EQ(real_map.by_numa, map.by_numa);
    EXPECT_EQ(real_map.notes, map.notes);
    ASSERT_EQ(real_rails.size(), rails.size());
    for (std::size_t i = 0; i < rails.size(); ++i) {
        EXPECT_EQ(real_rails[i].name, rails[i].name);
        EXPECT_EQ(real_rails[i].pci, rails[i].pci);
    }
}

INSTANTIATE_TEST_SUITE_P(All, Captures, testing::Values("p5.48xl", "p4d.24xl", "g6.48xl", "c5n.18xl"),
                         [](const auto& tested) { return test_name(tested.param); });

TEST(HostMemory, LimitInGbps) {
    const Machine machine = read_machine(topology_file("p5.48xl"));
    const std::vector<RailDesc> rails = efa_rails(machine);
    auto count = [&](double limit) {
        const RailWindows windows = select_rails(machine, rails, {limit}).by_numa.at(1);
        for (const std::vector<std::size_t>& window : windows)
            EXPECT_EQ(window.size(), windows.front().size()) << "of " << limit;
        return windows.front().size();
    };
    EXPECT_EQ(count(1), 1u);
    EXPECT_EQ(count(199), 1u);
    EXPECT_EQ(count(200), 2u);
    EXPECT_EQ(count(1600), 16u);
    EXPECT_EQ(count(3200), 32u);
    EXPECT_EQ(count(1e9), 32u);
}

std::string in_turn(const std::vector<RailDesc>& rails, const RailWindows& windows) {
    std::string text;
    for (const std::vector<std::size_t>& window : windows)
        text += (text.empty() ? "" : " ") + short_names(rails, window);
    return text;
}

TEST(HostMemory, OneNicOfEachHostBridgeInTurn) {
    const Machine machine = read_machine(topology_file("p5.48xl"));
    const std::vector<RailDesc> rails = efa_rails(machine);
    const RailMap map = select_rails(machine, rails);
    EXPECT_EQ(in_turn(rails, map.by_numa[0]), "4f,60,71,82 50,61,72,83 51,62,73,84 52,63,74,85");
    EXPECT_EQ(in_turn(rails, map.by_numa[1]), "93,a4,b5,c6 94,a5,b6,c7 95,a6,b7,c8 96,a7,b8,c9");
}

TEST(HostMemory, OneNicOfEachGpuInTurn) {
    const Machine machine = read_machine(topology_file("p5en.48xl"));
    const std::vector<RailDesc> rails = efa_rails(machine);
    const RailMap map = select_rails(machine, rails);
    EXPECT_EQ(in_turn(rails, map.by_numa[0]), "55,57,6e,70 56,58,6f,71");
    EXPECT_EQ(in_turn(rails, map.by_numa[1]), "87,89,a0,a2 88,8a,a1,a3");
}

TEST(HostMemory, SeveralNodesAndUnknownOnes) {
    const Machine machine = read_machine(topology_file("p5.48xl"));
    const RailMap map = select_rails(machine, efa_rails(machine));
    auto count = [&](std::vector<int> nodes) { return rails_of_nodes(map, nodes, 5).size(); };
    EXPECT_EQ(count({0}), 4u);
    EXPECT_EQ(count({0, 1}), 8u);
    EXPECT_EQ(count({}), 8u);
    EXPECT_EQ(count({-1}), 8u);
    EXPECT_EQ(count({7}), 8u);
    const std::vector<RailDesc> rails = efa_rails(machine);
    EXPECT_EQ(short_names(rails, rails_of_nodes(map, std::vector<int>{0, 1}, 5)), "50,61,72,83,94,a5,b6,c7")
        << "the same window of each";
}

TEST(Distance, OfThreeInstances) {
    auto between = [](const std::string& name, std::size_t gpu, const char* nic_address) {
        const Machine machine = read_machine(topology_file(name));
        const auto nic = std::find_if(machine.nics.begin(), machine.nics.end(), [&](const NicDesc& n) {
            return n.pci == parse_pci_address(nic_address);
        });
        return closeness(machine, machine.gpus.at(gpu), *nic);
    };
    EXPECT_EQ(between("p5.48xl", 0, "0000:4f:00.0"), Closeness::pci_switch);
    EXPECT_EQ(between("p5.48xl", 0, "0000:60:00.0"), Closeness::numa_node);
    EXPECT_EQ(between("p5.48xl", 0, "0000:93:00.0"), Closeness::far);
    EXPECT_EQ(between("p4d.24xl", 1, "0000:10:1b.0"), Closeness::host_bridge);
    EXPECT_EQ(between("g6.48xl", 0, "0000:96:00.0"), Closeness::numa_node);
    EXPECT_EQ(between("g6.48xl", 7, "0000:96:00.0"), Closeness::far);
}

}  // namespace
}  // namespace railyard::topology
