// Machines that no instance type is: holes and oddities.
#include "topology/rail_selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/status.h"
#include "unit/topology/machine_builder.h"
#include "unit/topology/topologies.h"

namespace railyard::topology {
namespace {

/// Of nodes each of whose ranges all have the same rails.
std::vector<RailWindows> the_same(const std::vector<std::vector<std::size_t>>& of_each) {
    std::vector<RailWindows> nodes;
    for (const std::vector<std::size_t>& rails : of_each)
        nodes.push_back({rails});
    return nodes;
}

std::vector<std::size_t> first(std::size_t count) {
    std::vector<std::size_t> indices(count);
    for (std::size_t i = 0; i < count; ++i)
        indices[i] = i;
    return indices;
}

TEST(RailSelection, TheNearestSwitchWinsOverTheHostBridge) {
    MachineBuilder b(1);
    const std::size_t host = b.bridge(0, 0x10);
    const std::size_t left = b.port(host, 0x11);
    const std::size_t right = b.port(host, 0x20);
    b.nic(left, 0x12);
    b.gpu(left, 0x13);
    b.nic(right, 0x21);
    b.gpu(right, 0x22);
    EXPECT_EQ(b.table(), "13=12 22=21");
}

TEST(RailSelection, GpuWithoutNicOnItsSwitchSharesThoseOfTheHostBridge) {
    MachineBuilder b(1);
    const std::size_t host = b.bridge(0, 0x10);
    const std::size_t left = b.port(host, 0x11);
    const std::size_t right = b.port(host, 0x20);
    b.nic(left, 0x12);
    b.nic(left, 0x13);
    b.gpu(left, 0x14);
    b.gpu(right, 0x21);
    EXPECT_EQ(b.table(), "14=12,13 21=13");
}

TEST(RailSelection, OddNumbersAreSharedOutWithinOne) {
    MachineBuilder b(1);
    const std::size_t host = b.bridge(0, 0x10);
    for (std::uint8_t bus = 0x11; bus < 0x16; ++bus)
        b.nic(host, bus);
    b.gpu(host, 0x20);
    b.gpu(host, 0x21);
    EXPECT_EQ(b.table(), "20=11,12 21=13,14,15");
}

TEST(RailSelection, MissingNic) {
    const Machine machine = read_machine(topology_file("p5.48xl"));
    std::vector<RailDesc> rails = efa_rails(machine);
    std::erase_if(rails, [](const RailDesc& rail) { return rail.pci->bus == 0x50 || rail.pci->bus >= 0xc6; });
    const RailMap map = select_rails(machine, rails);
    const std::string table = gpu_table(machine, rails, map);
    EXPECT_EQ(table.substr(0, table.find(' ')), "53=4f,51,52");
    // The last GPU lost its whole switch: those of its NUMA node, and a note.
    EXPECT_EQ(short_names(rails, map.by_gpu.back()), "93,94,95,96,a4,a5,a6,a7,b5,b6,b7,b8");
    ASSERT_EQ(map.notes.size(), 1u);
    EXPECT_NE(map.notes[0].find("0000:ca:00.0"), std::string::npos) << map.notes[0];
    EXPECT_NE(map.notes[0].find("NUMA node 1"), std::string::npos) << map.notes[0];
}

TEST(RailSelection, NicWithoutNumaServesEveryNode) {
    MachineBuilder b(2);
    b.nic(b.bridge(-1, 0x00), 0x00);
    b.gpu(b.bridge(1, 0x20), 0x20);
    b.gpu(b.bridge(-1, 0x30), 0x30);
    const RailMap map = b.select();
    EXPECT_EQ(map.by_gpu, (std::vector<std::vector<std::size_t>>{{0}, {0}}));
    EXPECT_EQ(map.by_numa, the_same({{0}, {0}}));
    ASSERT_EQ(map.notes.size(), 1u) << "one note for both";
    EXPECT_NE(map.notes[0].find("0000:20:00.0, 0000:30:00.0"), std::string::npos) << map.notes[0];
}

TEST(RailSelection, NicWithoutNumaComesAfterTheNodesOwn) {
    MachineBuilder b(2);
    b.nic(b.bridge(-1, 0x00), 0x00);
    b.nic(b.bridge(0, 0x10), 0x10);
    b.nic(b.bridge(1, 0x20), 0x20);
    const RailMap map = b.select();
    EXPECT_EQ(map.by_numa, the_same({{1}, {2}}));
    EXPECT_EQ(select_rails(b.machine, b.rails, {200}).by_numa, the_same({{0, 1}, {0, 2}}));
}

TEST(RailSelection, DomainsAreDifferentMachinesOfBuses) {
    MachineBuilder b(2);
    for (std::uint32_t domain : {0u, 1u}) {
        const std::size_t host = b.bridge(static_cast<int>(domain), 0x40, domain);
        b.nic(host, 0x4f);
        b.gpu(host, 0x53);
    }
    EXPECT_EQ(b.table(), "53=4f 1/53=1/4f");
    EXPECT_EQ(b.select().by_numa, the_same({{0}, {1}}));
}

TEST(RailSelection, FirmwareDistancesDecideWhichNodeIsNear) {
    MachineBuilder b(3);
    b.nic(b.bridge(0, 0x10), 0x10);
    b.nic(b.bridge(1, 0x20), 0x20);
    b.gpu(b.bridge(2, 0x30), 0x30);
    EXPECT_EQ(b.table(), "30=10") << "equally near: by number";
    b.machine.numa[2].distance = {32, 21, 10};
    EXPECT_EQ(b.table(), "30=20");
    EXPECT_EQ(b.select().by_numa[2], (RailWindows{{1}}));
    EXPECT_EQ(nearest_nodes(b.machine, 2), (std::vector<int>{2, 1, 0}));
    EXPECT_EQ(nearest_nodes(b.machine, unknown_numa), (std::vector<int>{0, 1, 2}));
}

TEST(RailSelection, HostMemoryGetsWhatItsBestHostBridgeFeeds) {
    MachineBuilder b(2);
    const std::size_t wide = b.bridge(0, 0x10);
    for (std::uint8_t bus = 0x11; bus < 0x14; ++bus)
        b.nic(wide, bus);
    b.nic(b.bridge(0, 0x20), 0x20);
    const std::size_t with_gpu = b.bridge(1, 0x30);
    b.nic(with_gpu, 0x30);
    b.gpu(with_gpu, 0x31);
    b.nic(b.bridge(1, 0x40), 0x40);
    EXPECT_EQ(b.select().by_numa, (std::vector<RailWindows>{{{0, 1, 3}, {0, 2, 3}}, {{4}, {5}}}));
}

/// Four NICs at a time of six: the second four begin behind the first ones, and go on with these.
TEST(RailSelection, TheLastNicsAreJoinedByTheFirst) {
    MachineBuilder b(2);
    const std::size_t host = b.bridge(0, 0x10);
    for (std::uint8_t bus = 0x11; bus < 0x17; ++bus)
        b.nic(host, bus);
    const RailMap map = select_rails(b.machine, b.rails, {400});
    ASSERT_EQ(map.by_numa[0], (RailWindows{{0, 1, 2, 3}, {0, 1, 4, 5}}));
    EXPECT_EQ(map.by_numa[1], map.by_numa[0]) << "a node without NICs has those of the nearest in turn, too";
    for (std::size_t turn = 0; turn < 4; ++turn)
        EXPECT_EQ(rails_of_nodes(map, std::vector<int>{0}, turn), map.by_numa[0][turn % 2]);
    EXPECT_EQ(rails_in(map.by_numa[0]), first(6));
}

/// A machine of four host bridges a node, each with a GPU and a NIC that is as fast.
TEST(RailSelection, OneNicAtATimeIsEachInTurn) {
    MachineBuilder b(1);
    for (std::uint8_t bus = 0x10; bus < 0x50; bus += 0x10) {
        const std::size_t host = b.bridge(0, bus);
        b.nic(host, bus, 400);
        b.gpu(host, static_cast<std::uint8_t>(bus + 1));
    }
    EXPECT_EQ(b.select().by_numa[0], (RailWindows{{0}, {1}, {2}, {3}}));
}

/// GB200, and machines whose NICs are cards in slots of their own. A node without NICs takes what one with
/// NICs would.
TEST(RailSelection, HostMemoryGetsAllNicsThatHaveHostBridgesOfTheirOwn) {
    MachineBuilder b(3);
    b.nic(b.bridge(0, 0x10), 0x10, 400);
    b.nic(b.bridge(0, 0x20), 0x20, 200);
    b.gpu(b.bridge(0, 0x30), 0x30);
    b.nic(b.bridge(1, 0x40), 0x40, 400);
    b.nic(b.bridge(1, 0x50), 0x50, 200);
    EXPECT_EQ(b.select().by_numa, the_same({{0, 1}, {2, 3}, {0, 1}}));
    EXPECT_EQ(select_rails(b.machine, b.rails, {400}).by_numa[0], (RailWindows{{0}, {1}}));
}

TEST(RailSelection, AReasonHasTheLimitWhateverItIs) {
    MachineBuilder b(1);
    b.nic(b.bridge(0, 0x10), 0x10);
    for (const auto& [limit, text] : {std::pair{99.6, "limit of 100 Gbit/s"},
                                      {1e6, "limit of 1000000 Gbit/s"},
                                      {1e30, "limit of 1000000000000000019884624838656 Gbit/s"},
                                      {HUGE_VAL, "limit of inf Gbit/s"}})
        EXPECT_EQ(select_rails(b.machine, b.rails, {limit}).numa_reasons.at(0), text);
}

TEST(RailSelection, RailsWithoutAnAddressServeEverything) {
    const Machine machine = read_machine(topology_file("p4d.24xl"));
    const std::vector<RailDesc> rails = {{"eth0", std::nullopt, 0}, {"lo", std::nullopt, 0}};
    const RailMap map = select_rails(machine, rails);
    EXPECT_EQ(map.by_gpu, std::vector<std::vector<std::size_t>>(8, first(2)));
    EXPECT_EQ(map.by_numa, the_same({first(2), first(2)}));
    EXPECT_EQ(map.all, first(2));
    EXPECT_TRUE(map.notes.empty());
}

TEST(RailSelection, StrangersServeEverythingBesideTheOthers) {
    const Machine machine = read_machine(topology_file("p4d.24xl"));
    std::vector<RailDesc> rails = efa_rails(machine);
    rails.push_back({"rdmap99s0", parse_pci_address("0000:63:00.0"), 0});
    const RailMap map = select_rails(machine, rails);
    EXPECT_EQ(short_names(rails, map.by_gpu[0]), "10:1b,63");
    EXPECT_EQ(map.by_numa, the_same({first(5), first(5)}));
    ASSERT_EQ(map.notes.size(), 1u);
    EXPECT_NE(map.notes[0].find("rdmap99s0 (0000:63:00.0)"), std::string::npos) << map.notes[0];
}

TEST(RailSelection, NoIoInTheTopology) {
    MachineBuilder b(2);
    const std::vector<RailDesc> rails = {{"a", PciAddress{0, 1, 0, 0}, 100},
                                         {"b", PciAddress{0, 2, 0, 0}, 100}};
    const RailMap map = select_rails(b.machine, rails);
    EXPECT_TRUE(map.by_gpu.empty());
    EXPECT_EQ(map.by_numa, the_same({first(2), first(2)}));
    EXPECT_EQ(map.all, first(2));
}

TEST(RailSelection, NothingAtAll) {
    const RailMap map = select_rails({}, {});
    EXPECT_TRUE(map.all.empty());
    EXPECT_TRUE(rails_of_nodes(map, {}, 3).empty());
    const std::vector<RailDesc> rails = {{"eth0", std::nullopt, 0}};
    EXPECT_EQ(rails_of_nodes(select_rails({}, rails), std::vector<int>{0}, 1), first(1));
}

TEST(VisibleGpus, SubsetsAndOrdersKeepTheirRails) {
    const Machine machine = read_machine(topology_file("p5en.48xl"));
    const std::vector<RailDesc> rails = efa_rails(machine);
    const RailMap map = select_rails(machine, rails);
    // CUDA_VISIBLE_DEVICES=7,1 as a driver shows it: its own spelling of the ids.
    const std::vector<std::string> ids = {"00000000:A5:00.0", "0000:5a:00.0"};
    const std::vector<GpuDesc> visible = visible_gpus(machine, ids);
    ASSERT_EQ(visible.size(), 2u);
    EXPECT_EQ(short_names(rails, rails_of_gpu(map, visible[0])), "a2,a3");
    EXPECT_EQ(short_names(rails, rails_of_gpu(map, visible[1])), "57,58");
    EXPECT_EQ(visible[0].numa, 1);
}

TEST(VisibleGpus, UnknownOnesHaveAllRails) {
    const Machine machine = read_machine(topology_file("p5.48xl"));
    const RailMap map = select_rails(machine, efa_rails(machine));
    const std::vector<std::string> ids = {"0001:53:00.0"};
    const std::vector<GpuDesc> visible = visible_gpus(machine, ids);
    EXPECT_EQ(visible.at(0).ordinal, -1);
    EXPECT_EQ(rails_of_gpu(map, visible[0]), first(32));
}

TEST(VisibleGpus, RefusesWhatIsNoAddress) {
    const std::vector<std::string> ids = {"GPU-1a2b"};
    try {
        (void)visible_gpus({}, ids);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::invalid_param);
        EXPECT_NE(std::string(error.what()).find("GPU-1a2b"), std::string::npos);
    }
}

}  // namespace
}  // namespace railyard::topology
