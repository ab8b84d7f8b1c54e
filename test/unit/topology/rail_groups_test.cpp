// Which rails a progress thread serves, by the machines that it was made for.
#include "topology/rail_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "unit/topology/topologies.h"

namespace railyard::topology {
namespace {

/// "16@0 16@1": rails at their nodes.
std::string shape(const std::vector<RailGroup>& groups) {
    std::string text;
    for (const RailGroup& group : groups) {
        text += (text.empty() ? "" : " ") + std::to_string(group.rails.size()) + "@";
        for (const int node : group.nodes)
            text += (text.back() == '@' ? "" : "+") + std::to_string(node);
    }
    return text;
}

std::string shape(const std::string& file, std::size_t threads) {
    const Machine machine = read_machine(file);
    return shape(group_rails(machine, efa_rails(machine), threads));
}

/// A machine of nodes with two CPUs each, and as many NICs as are named.
Machine machine_of(const std::vector<int>& nic_nodes) {
    Machine machine;
    for (const int node : nic_nodes) {
        NicDesc nic;
        nic.pci.bus = static_cast<std::uint8_t>(machine.nics.size() + 1);
        nic.numa = node;
        nic.efa = true;
        machine.nics.push_back(nic);
    }
    for (int node = 0; node < 4; ++node)
        machine.numa.push_back({node, 1 << 30, {}, {2 * node, 2 * node + 1}});
    return machine;
}

std::vector<RailGroup> groups_of(const std::vector<int>& nic_nodes, std::size_t threads) {
    const Machine machine = machine_of(nic_nodes);
    return group_rails(machine, efa_rails(machine), threads);
}

TEST(RailGroups, AreThoseOfANode) {
    EXPECT_EQ(shape(topology_file("p5.48xl"), 0), "16@0 16@1");
    EXPECT_EQ(shape(topology_file("p4d.24xl"), 0), "2@0 2@1");
    EXPECT_EQ(shape(topology_file("p5en.48xl"), 0), "8@0 8@1");
    EXPECT_EQ(shape(topology_file("g6.48xl"), 0), "1@0") << "a node without a rail needs no thread";
    const Machine machine = read_machine(topology_file("p5.48xl"));
    const std::vector<RailDesc> rails = efa_rails(machine);
    for (const RailGroup& group : group_rails(machine, rails, 0)) {
        for (const std::size_t rail : group.rails) {
            const auto nic = std::find_if(machine.nics.begin(), machine.nics.end(),
                                          [&](const NicDesc& known) { return known.pci == rails[rail].pci; });
            EXPECT_EQ(nic->numa, group.nodes.front()) << nic->name;
        }
    }
}

TEST(RailGroups, OfCapturesHaveTheirNodesCpus) {
    const std::string p5 = capture_file("p5.48xl");
    if (p5.empty()) GTEST_SKIP() << "no captures of real machines beside the repository";
    const Machine machine = read_machine(p5);
    const std::vector<RailGroup> groups = group_rails(machine, efa_rails(machine), 0);
    ASSERT_EQ(shape(groups), "16@0 16@1");
    std::vector<int> first(48), second(48);
    std::iota(first.begin(), first.end(), 0);
    std::iota(second.begin(), second.end(), 48);
    EXPECT_EQ(groups[0].cpus, first);
    EXPECT_EQ(groups[1].cpus, second);
    EXPECT_EQ(shape(capture_file("p4d.24xl"), 0), "2@0 2@1");
}

TEST(RailGroups, AreMergedWhereThereAreMoreNodesThanThreads) {
    EXPECT_EQ(shape(topology_file("p5.48xl"), 1), "32@0+1");
    EXPECT_EQ(shape(groups_of({0, 0, 1, 2, 3}, 0)), "2@0 1@1 1@2 1@3");
    EXPECT_EQ(shape(groups_of({0, 0, 1, 2, 3}, 3)), "2@0 2@1+2 1@3");
    EXPECT_EQ(shape(groups_of({0, 1, 2, 3}, 2)), "2@0+1 2@2+3");
    const auto merged = groups_of({3, 2, 1, 0}, 2);
    EXPECT_EQ(merged[0].rails, (std::vector<std::size_t>{2, 3})) << "rails are named by their place";
    EXPECT_EQ(merged[0].cpus, (std::vector<int>{0, 1, 2, 3}));
}

TEST(RailGroups, AreSplitWhereThereAreFewerNodesThanThreads) {
    EXPECT_EQ(shape(topology_file("p5.48xl"), 4), "8@0 8@0 8@1 8@1");
    EXPECT_EQ(shape(groups_of({0, 0, 0}, 2)), "2@0 1@0");
    EXPECT_EQ(shape(groups_of({0, 0, 0}, 64)), "1@0 1@0 1@0") << "none is without a rail";
    EXPECT_EQ(groups_of({1, 1}, 2)[1].cpus, (std::vector<int>{2, 3})) << "both are of node 1";
}

TEST(RailGroups, OfRailsWithoutAPlaceAreEven) {
    const std::vector<RailDesc> nowhere(5);
    EXPECT_EQ(shape(group_rails({}, nowhere, 0)), "5@") << "no node is known: one thread";
    EXPECT_EQ(shape(group_rails({}, nowhere, 2)), "3@ 2@");
    EXPECT_TRUE(group_rails({}, nowhere, 2)[1].cpus.empty());
    const Machine machine = machine_of({0, 0, 1});
    std::vector<RailDesc> rails = efa_rails(machine);
    rails.insert(rails.begin(), 3, RailDesc{});
    EXPECT_EQ(shape(group_rails(machine, rails, 0)), "3@0 3@1") << "where there are fewest";
}

TEST(RailGroups, HaveEachRailOnce) {
    for (std::size_t threads = 0; threads < 12; ++threads) {
        const auto groups = groups_of({2, 0, 2, 1, unknown_numa, 2, 3, 2, 2}, threads);
        std::multiset<std::size_t> seen;
        for (const RailGroup& group : groups) {
            EXPECT_FALSE(group.rails.empty());
            EXPECT_TRUE(std::is_sorted(group.rails.begin(), group.rails.end()));
            seen.insert(group.rails.begin(), group.rails.end());
        }
        EXPECT_EQ(seen, (std::multiset<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8})) << threads;
        EXPECT_EQ(groups.size(), threads == 0 ? 4 : std::min<std::size_t>(threads, 9)) << threads;
    }
}

}  // namespace
}  // namespace railyard::topology
