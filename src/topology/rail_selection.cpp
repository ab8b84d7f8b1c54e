#include "topology/rail_selection.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

#include "common/status.h"
#include "topology/distance.h"
#include "topology/turns.h"

namespace railyard::topology {
namespace {

using Indices = std::vector<std::size_t>;

/// Assumed of a NIC whose speed nobody knows: what most EFAs have.
constexpr double usual_gbps = 100;

/// A NIC that has rails.
struct RailNic {
    const NicDesc* nic;
    double gbps;
    Indices rails;
};

std::string listing(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names)
        text += (text.empty() ? "" : ", ") + name;
    return text;
}

std::string number_text(double value) {
    std::array<char, 400> text{};  // the largest has 309 digits
    std::snprintf(text.data(), text.size(), "%.0f", value);
    return text.data();
}

class Selection {
  public:
    Selection(const Machine& machine, std::span<const RailDesc> rails, const SelectionRules& rules)
        : machine_(machine), rules_(rules) {
        join(rails);
        for (const GpuDesc& gpu : machine_.gpus)
            choose_for_gpu(gpu);
        say_far_gpus();
        choose_for_nodes();
    }

    RailMap take() { return std::move(map_); }

  private:
    /// NICs with their rails, in bus order; rails of no NIC serve everything.
    void join(std::span<const RailDesc> rails) {
        std::map<PciAddress, RailNic> nics;
        std::vector<std::string> strangers;
        for (std::size_t i = 0; i < rails.size(); ++i) {
            map_.all.push_back(i);
            const NicDesc* nic = nic_at(machine_, rails[i].pci);
            if (!nic) {
                everywhere_.push_back(i);
                if (rails[i].pci) strangers.push_back(rails[i].name + " (" + to_string(*rails[i].pci) + ")");
                continue;
            }
            RailNic& entry = nics.try_emplace(nic->pci, RailNic{nic, 0, {}}).first->second;
            entry.gbps = std::max(entry.gbps, rails[i].gbps);
            entry.rails.push_back(i);
        }
        for (auto& [address, nic] : nics) {
            if (nic.gbps <= 0) nic.gbps = nic.nic->gbps > 0 ? nic.nic->gbps : usual_gbps;
            nics_.push_back(std::move(nic));
        }
        if (!strangers.empty())
            map_.notes.push_back("not in the topology, so used for all memory: " + listing(strangers));
    }

    template <typename Wanted>
    std::vector<const RailNic*> nics_where(Wanted wanted) const {
        std::vector<const RailNic*> found;
        for (const RailNic& nic : nics_) {
            if (wanted(nic)) found.push_back(&nic);
        }
        return found;
    }

    std::vector<const RailNic*> nics_under(std::size_t node) const {
        return nics_where([&](const RailNic& n) { return is_above(machine_, node, n.nic->parent); });
    }

    std::vector<const RailNic*> nics_on(int numa) const {
        return nics_where([&](const RailNic& n) { return n.nic->numa == numa; });
    }

    Indices rails_of(std::span<const RailNic* const> nics) const {
        Indices rails = everywhere_;
        for (const RailNic* nic : nics)
            rails.insert(rails.end(), nic->rails.begin(), nic->rails.end());
        std::sort(rails.begin(), rails.end());
        return rails;
    }

    void choose(std::span<const RailNic* const> nics, std::string reason) {
        map_.by_gpu.push_back(rails_of(nics));
        map_.gpu_reasons.push_back(std::move(reason));
    }

    void choose_for_gpu(const GpuDesc& gpu) {
        if (nics_.empty()) return choose({}, placeless_reason());
        for (std::size_t node = gpu.parent; node != no_parent; node = machine_.tree[node].parent) {
            const TreeNode& place = machine_.tree[node];
            if (place.kind != NodeKind::pci_bridge && place.kind != NodeKind::host_bridge) break;
            const std::vector<const RailNic*> near = nics_under(node);
            if (!near.empty()) return share_out(gpu, node, near);
        }
        choose_by_numa(gpu);
    }

    /// Each of the GPUs under `node` gets its part of the NICs under it, both in bus order.
    void share_out(const GpuDesc& gpu, std::size_t node, std::span<const RailNic* const> near) {
        std::size_t count = 0;
        std::size_t position = 0;
        for (const GpuDesc& other : machine_.gpus) {
            if (!is_above(machine_, node, other.parent)) continue;
            if (other.pci < gpu.pci) ++position;
            ++count;
        }
        const std::size_t first = position * near.size() / count;
        const std::size_t last = std::max(first + 1, (position + 1) * near.size() / count);
        for (std::size_t i = first; i < last; ++i)
            turn_in_share_[near[i]] = i - first;
        const TreeNode& place = machine_.tree[node];
        std::string reason = place.kind == NodeKind::pci_bridge
                                 ? "PCIe switch " + to_string(place.pci)
                                 : "host bridge of bus " + to_string(place.pci).substr(0, 7);
        if (near.size() < count) {
            reason += ", NIC shared";
        } else if (count > 1) {
            reason += ", its part of " + std::to_string(near.size()) + " NICs";
        }
        choose(near.subspan(first, last - first), reason);
    }

    void choose_by_numa(const GpuDesc& gpu) {
        if (gpu.numa != unknown_numa) {
            for (const int node : nearest_nodes(machine_, gpu.numa)) {
                const std::vector<const RailNic*> nics = nics_on(node);
                if (nics.empty()) continue;
                far_[node].push_back(to_string(gpu.pci));
                return choose(nics, (node == gpu.numa ? "its NUMA node " : "nearest NUMA node with NICs: ") +
                                        std::to_string(node));
            }
        }
        far_[unknown_numa].push_back(to_string(gpu.pci));
        const std::vector<const RailNic*> every = nics_where([](const RailNic&) { return true; });
        choose(every, "no NIC is nearer than any other");
    }

    std::string placeless_reason() const {
        return map_.all.empty() ? "there is no rail" : "no rail has a PCI address here";
    }

    void say_far_gpus() {
        for (const auto& [node, gpus] : far_) {
            const std::string rails =
                node == unknown_numa ? "all rails" : "the rails of NUMA node " + std::to_string(node);
            map_.notes.push_back("no NIC shares a PCIe switch or host bridge with GPU " + listing(gpus) +
                                 ": " + rails + " used");
        }
    }

    /// What the NICs or the GPUs of the best equipped host bridge with NICs can move, whichever is more: what
    /// one port of the root complex was built to feed. Where each NIC has a host bridge to itself no such
    /// port shows, and it is what all NICs move together.
    double capacity_of(std::span<const RailNic* const> nics) const {
        struct Fed {
            double by_nics = 0;
            double by_gpus = 0;
        };
        std::map<std::size_t, Fed> bridges;
        double all = 0;
        for (const RailNic* nic : nics) {
            bridges[host_bridge_of(machine_, nic->nic->parent)].by_nics += nic->gbps;
            all += nic->gbps;
        }
        bool alone = bridges.size() == nics.size() && !bridges.contains(no_parent);
        for (const GpuDesc& gpu : machine_.gpus) {
            const std::size_t bridge = host_bridge_of(machine_, gpu.parent);
            if (bridge == no_parent || !bridges.contains(bridge)) continue;
            bridges[bridge].by_gpus += gpu.link_gbps;
            alone = false;
        }
        if (alone) return all;
        double most = 0;
        for (const auto& [bridge, fed] : bridges)
            most = std::max({most, fed.by_nics, fed.by_gpus});
        return most;
    }

    /// Of a node's NICs; where it has none, of those of the best equipped node.
    double link_capacity(int numa) const {
        const std::vector<const RailNic*> own = nics_on(numa);
        if (!own.empty()) return capacity_of(own);
        double most = 0;
        for (const RailNic& nic : nics_)
            most = std::max(most, capacity_of(nics_on(nic.nic->numa)));
        return most;
    }

    /// NICs in the order in which host memory of a node takes them: the node's own, those without a node,
    /// then the other nodes' by distance.
    std::vector<const RailNic*> in_reach_of(int node) const {
        std::vector<int> order = nearest_nodes(machine_, node);
        order.insert(order.begin() + (order.empty() ? 0 : 1), unknown_numa);
        std::vector<const RailNic*> result;
        for (const int place : order) {
            const std::vector<const RailNic*> nics = in_turns(nics_on(place));
            result.insert(result.end(), nics.begin(), nics.end());
        }
        for (const RailNic& nic : nics_) {  // on a node that the topology does not list
            if (std::find(result.begin(), result.end(), &nic) == result.end()) result.push_back(&nic);
        }
        return result;
    }

    /// One NIC of each host bridge in turn, and of those of one bridge one of each GPU in turn, so that no
    /// GPU and no bridge has more of the host's traffic beside its own than it must.
    std::vector<const RailNic*> in_turns(std::vector<const RailNic*> nics) const {
        auto turn_in_share = [&](const RailNic* nic) {
            const auto turn = turn_in_share_.find(nic);
            return turn == turn_in_share_.end() ? 0 : turn->second;
        };
        std::stable_sort(nics.begin(), nics.end(), [&](const RailNic* a, const RailNic* b) {
            return turn_in_share(a) < turn_in_share(b);
        });
        take_in_turns(nics, [&](const RailNic* nic) { return host_bridge_of(machine_, nic->nic->parent); });
        return nics;
    }

    void choose_for_nodes() {
        for (const NumaNode& node : machine_.numa) {
            const auto number = static_cast<std::size_t>(node.node);
            if (map_.by_numa.size() <= number) {
                map_.by_numa.resize(number + 1);
                map_.numa_reasons.resize(number + 1);
            }
            double limit = rules_.max_host_gbps;
            if (limit <= 0) limit = link_capacity(node.node);
            const std::vector<const RailNic*> order = in_reach_of(node.node);
            const std::size_t near = nearest_of(order);
            std::size_t start = 0;
            do {
                const std::vector<const RailNic*> chosen = window_of(order, near, start, limit);
                if (start == 0) map_.numa_reasons[number] = reason_for_node(node.node, limit, chosen);
                map_.by_numa[number].push_back(rails_of(chosen));
                start += chosen.size();
            } while (start < near);
        }
    }

    /// How many come first that are on one node: the memory's own or, where that has none, the nearest.
    static std::size_t nearest_of(std::span<const RailNic* const> order) {
        const auto other = std::find_if(order.begin(), order.end(), [&](const RailNic* nic) {
            return nic->nic->numa != order.front()->nic->numa;
        });
        return static_cast<std::size_t>(other - order.begin());
    }

    /// As many as fit, of the `near` first ones from `start` on and around; those behind them only after all
    /// of these.
    static std::vector<const RailNic*> window_of(std::span<const RailNic* const> order, std::size_t near,
                                                 std::size_t start, double limit) {
        std::vector<const RailNic*> chosen;
        double sum = 0;
        for (std::size_t i = 0; i < order.size(); ++i) {
            const RailNic* const nic = order[i < near ? (start + i) % near : i];
            if (!chosen.empty() && sum + nic->gbps > limit) break;
            sum += nic->gbps;
            chosen.push_back(nic);
        }
        return chosen;
    }

    std::string reason_for_node(int node, double limit, std::span<const RailNic* const> chosen) const {
        if (chosen.empty()) return placeless_reason();
        const auto strange = std::count_if(chosen.begin(), chosen.end(),
                                           [&](const RailNic* n) { return n->nic->numa != node; });
        std::string reason =
            (rules_.max_host_gbps > 0 ? "limit of " : "link capacity ") + number_text(limit) + " Gbit/s";
        if (strange > 0) reason += ", " + std::to_string(strange) + " of the NICs not its own";
        return reason;
    }

    const Machine& machine_;
    const SelectionRules& rules_;
    std::vector<RailNic> nics_;  // in bus order
    Indices everywhere_;
    std::map<int, std::vector<std::string>> far_;  // GPUs without a near NIC, by the node whose NICs they use
    std::map<const RailNic*, std::size_t> turn_in_share_;  // position among the NICs that a GPU was given
    RailMap map_;
};

}  // namespace

RailMap select_rails(const Machine& machine, std::span<const RailDesc> rails, const SelectionRules& rules) {
    return Selection(machine, rails, rules).take();
}

std::vector<GpuDesc> visible_gpus(const Machine& machine, std::span<const std::string> pci_ids) {
    std::vector<GpuDesc> visible;
    for (const std::string& id : pci_ids) {
        const std::optional<PciAddress> address = parse_pci_address(id);
        if (!address)
            throw Error(Status::invalid_param, "GPU \"" + id + "\" is no PCI address; wanted: dddd:bb:dd.f");
        const auto gpu = std::find_if(machine.gpus.begin(), machine.gpus.end(),
                                      [&](const GpuDesc& g) { return g.pci == *address; });
        visible.push_back(gpu == machine.gpus.end() ? GpuDesc{.pci = *address} : *gpu);
    }
    return visible;
}

const std::vector<std::size_t>& rails_of_gpu(const RailMap& map, const GpuDesc& gpu) noexcept {
    const auto index = static_cast<std::size_t>(gpu.ordinal);  // -1 becomes the largest of all
    return index < map.by_gpu.size() ? map.by_gpu[index] : map.all;
}

std::vector<std::size_t> rails_of_nodes(const RailMap& map, std::span<const int> nodes, std::size_t turn) {
    auto known = [&](int node) {
        return node >= 0 && static_cast<std::size_t>(node) < map.by_numa.size() &&
               !map.by_numa[static_cast<std::size_t>(node)].empty();
    };
    const bool every = nodes.empty() || !std::all_of(nodes.begin(), nodes.end(), known);
    RailWindows chosen;
    for (std::size_t node = 0; node < map.by_numa.size(); ++node) {
        const RailWindows& windows = map.by_numa[node];
        if (windows.empty()) continue;
        if (every || std::find(nodes.begin(), nodes.end(), static_cast<int>(node)) != nodes.end())
            chosen.push_back(windows[turn % windows.size()]);
    }
    const Indices rails = rails_in(chosen);
    return rails.empty() ? map.all : rails;
}

std::vector<std::size_t> rails_in(const RailWindows& windows) {
    Indices rails;
    for (const Indices& window : windows)
        rails.insert(rails.end(), window.begin(), window.end());
    std::sort(rails.begin(), rails.end());
    rails.erase(std::unique(rails.begin(), rails.end()), rails.end());
    return rails;
}

}  // namespace railyard::topology
