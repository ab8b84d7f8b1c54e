// What holds of the rails of any machine, whatever hangs where.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "topology/distance.h"
#include "topology/rail_selection.h"
#include "unit/topology/machine_builder.h"
#include "unit/topology/topologies.h"

namespace railyard::topology {
namespace {

/// A tree of switches with devices strewn over it; every bus once.
MachineBuilder random_machine(std::mt19937& random) {
    auto below = [&](unsigned limit) { return static_cast<unsigned>(random() % limit); };
    MachineBuilder b(static_cast<int>(1 + below(3)));
    std::vector<std::size_t> places;
    std::uint8_t bus = 1;
    for (unsigned i = 0, count = 1 + below(5); i < count; ++i)
        places.push_back(b.bridge(static_cast<int>(below(4)) < 1
                                      ? -1
                                      : static_cast<int>(below(static_cast<unsigned>(b.machine.numa.size()))),
                                  bus++));
    for (unsigned i = 0, count = below(8); i < count; ++i)
        places.push_back(b.port(places[below(static_cast<unsigned>(places.size()))], bus++));
    for (unsigned i = 0, count = below(24); i < count; ++i) {
        const std::size_t place = places[below(static_cast<unsigned>(places.size()))];
        below(2) ? b.nic(place, bus++, below(4) * 100.0) : b.gpu(place, bus++);
    }
    return b;
}

void expect_no_list_empty(const MachineBuilder& b, const RailMap& map) {
    ASSERT_EQ(map.by_gpu.size(), b.machine.gpus.size());
    ASSERT_EQ(map.by_numa.size(), b.machine.numa.size());
    std::vector<const std::vector<std::vector<std::size_t>>*> several{&map.by_gpu};
    for (const RailWindows& windows : map.by_numa)
        several.push_back(&windows);
    for (const auto* lists : several) {
        for (const std::vector<std::size_t>& list : *lists) {
            EXPECT_EQ(list.empty(), b.rails.empty());
            EXPECT_TRUE(std::is_sorted(list.begin(), list.end()));
            EXPECT_EQ(std::set<std::size_t>(list.begin(), list.end()).size(), list.size());
            if (!list.empty()) {
                EXPECT_LT(list.back(), b.rails.size());
            }
        }
    }
}

/// GPUs whose nearest NICs are at one bridge, and no others under it: each NIC has as many GPUs as any other,
/// give or take one, and each GPU as many NICs.
void expect_even_shares(const MachineBuilder& b, const RailMap& map) {
    for (std::size_t node = 0; node < b.machine.tree.size(); ++node) {
        const NodeKind kind = b.machine.tree[node].kind;
        if (kind != NodeKind::host_bridge && kind != NodeKind::pci_bridge) continue;
        std::vector<std::size_t> gpus_of_nic(b.rails.size(), 0);
        std::vector<std::size_t> counts;
        bool own = true;
        for (const GpuDesc& gpu : b.machine.gpus) {
            if (!is_above(b.machine, node, gpu.parent)) continue;
            for (std::size_t p = gpu.parent; p != node; p = b.machine.tree[p].parent) {
                for (const NicDesc& nic : b.machine.nics)
                    own = own && !is_above(b.machine, p, nic.parent);
            }
            const std::vector<std::size_t>& list = map.by_gpu[static_cast<std::size_t>(gpu.ordinal)];
            counts.push_back(list.size());
            for (const std::size_t rail : list)
                ++gpus_of_nic[rail];
        }
        std::vector<std::size_t> served;
        for (std::size_t i = 0; i < b.machine.nics.size(); ++i) {
            if (is_above(b.machine, node, b.machine.nics[i].parent)) served.push_back(gpus_of_nic[i]);
        }
        if (!own || counts.empty() || served.empty()) continue;
        const auto [low, high] = std::minmax_element(counts.begin(), counts.end());
        EXPECT_LE(*high - *low, 1u);
        const auto [few, many] = std::minmax_element(served.begin(), served.end());
        EXPECT_LE(*many - *few, 1u);
        EXPECT_GE(*few, 1u) << "a NIC that nobody uses";
    }
}

/// Each NIC of a node has its turn, whatever its rate; foreign ones help out only where the node's own are
/// not enough for one range.
void expect_all_of_a_node_in_turn(const MachineBuilder& b, const RailMap& map) {
    for (const NumaNode& node : b.machine.numa) {
        const RailWindows& windows = map.by_numa.at(static_cast<std::size_t>(node.node));
        std::vector<std::size_t> own;
        for (std::size_t i = 0; i < b.machine.nics.size(); ++i) {
            if (b.machine.nics[i].numa == node.node) own.push_back(i);
        }
        ASSERT_FALSE(windows.empty());
        const std::vector<std::size_t> used = rails_in(windows);
        EXPECT_TRUE(std::includes(used.begin(), used.end(), own.begin(), own.end()));
        if (windows.size() > 1 && !own.empty()) {
            EXPECT_EQ(used, own);
        }
        EXPECT_LE(windows.size(), std::max<std::size_t>(b.rails.size(), 1));
    }
}

TEST(RailSelectionProperties, HoldForAnyMachine) {
    std::mt19937 random(20251121);
    for (int round = 0; round < 2000; ++round) {
        SCOPED_TRACE(round);
        const MachineBuilder b = random_machine(random);
        const RailMap map = b.select();
        expect_no_list_empty(b, map);
        expect_even_shares(b, map);
        expect_all_of_a_node_in_turn(b, map);
        if (testing::Test::HasFailure()) return;
    }
}

TEST(RailSelectionProperties, OrderOfTheRailsChangesNamesOnly) {
    const Machine machine = read_machine(topology_file("p6-b200.48xl"));
    std::vector<RailDesc> rails = efa_rails(machine);
    const std::string table = gpu_table(machine, rails, select_rails(machine, rails));
    std::reverse(rails.begin(), rails.end());
    EXPECT_EQ(gpu_table(machine, rails, select_rails(machine, rails)), table);
}

}  // namespace
}  // namespace railyard::topology
