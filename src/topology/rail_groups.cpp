#include "topology/rail_groups.h"

#include <algorithm>
#include <map>

namespace railyard::topology {
namespace {

using Groups = std::vector<RailGroup>;

int node_of(const Machine& machine, const RailDesc& rail) {
    const NicDesc* const nic = nic_at(machine, rail.pci);
    return nic ? nic->numa : unknown_numa;
}

bool has_fewer(const RailGroup& a, const RailGroup& b) {
    return a.rails.size() < b.rails.size();
}

Groups by_node(const Machine& machine, std::span<const RailDesc> rails) {
    std::map<int, RailGroup> of_nodes;
    std::vector<std::size_t> strangers;
    for (std::size_t i = 0; i < rails.size(); ++i) {
        const int node = node_of(machine, rails[i]);
        if (node == unknown_numa) {
            strangers.push_back(i);
        } else {
            of_nodes[node].rails.push_back(i);
        }
    }
    Groups groups;
    for (auto& [node, group] : of_nodes) {
        group.nodes = {node};
        groups.push_back(std::move(group));
    }
    if (groups.empty()) groups.emplace_back();
    for (const std::size_t rail : strangers)
        std::min_element(groups.begin(), groups.end(), has_fewer)->rails.push_back(rail);
    return groups;
}

/// The two neighbours that have the fewest rails together.
void merge_two(Groups& groups) {
    const auto pair_size = [&](std::size_t i) { return groups[i].rails.size() + groups[i + 1].rails.size(); };
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < groups.size(); ++i) {
        if (pair_size(i) < pair_size(best)) best = i;
    }
    RailGroup& into = groups[best];
    const RailGroup& from = groups[best + 1];
    into.rails.insert(into.rails.end(), from.rails.begin(), from.rails.end());
    into.nodes.insert(into.nodes.end(), from.nodes.begin(), from.nodes.end());
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(best) + 1);
}

/// The group of most rails; false: it has only one.
bool split_one(Groups& groups) {
    const auto largest = std::max_element(groups.begin(), groups.end(), has_fewer);
    if (largest->rails.size() < 2) return false;
    const auto middle = largest->rails.begin() + static_cast<std::ptrdiff_t>((largest->rails.size() + 1) / 2);
    RailGroup half{{middle, largest->rails.end()}, largest->nodes, {}};
    largest->rails.erase(middle, largest->rails.end());
    groups.insert(largest + 1, std::move(half));
    return true;
}

std::vector<int> cpus_of(const Machine& machine, const std::vector<int>& nodes) {
    std::vector<int> cpus;
    for (const NumaNode& node : machine.numa) {
        if (std::find(nodes.begin(), nodes.end(), node.node) != nodes.end())
            cpus.insert(cpus.end(), node.cpus.begin(), node.cpus.end());
    }
    std::sort(cpus.begin(), cpus.end());
    return cpus;
}

}  // namespace

std::vector<RailGroup> group_rails(const Machine& machine, std::span<const RailDesc> rails,
                                   std::size_t threads) {
    Groups groups = by_node(machine, rails);
    while (threads != 0 && groups.size() > threads)
        merge_two(groups);
    while (groups.size() < threads && split_one(groups)) {
    }
    for (RailGroup& group : groups) {
        std::sort(group.rails.begin(), group.rails.end());
        group.cpus = cpus_of(machine, group.nodes);
    }
    return groups;
}

}  // namespace railyard::topology
