#include "tools/picture_groups.h"

#include <algorithm>
#include <map>

#include "topology/distance.h"

namespace railyard::tools {
namespace {

using topology::NodeKind;
using Indices = std::vector<std::size_t>;

bool contains(const Indices& list, std::size_t value) {
    return std::find(list.begin(), list.end(), value) != list.end();
}

class Builder {
  public:
    explicit Builder(const Survey& survey) : survey_(survey), machine_(survey.machine) {
        find_nics();
        for (std::size_t node = 0; node < machine_.tree.size(); ++node) {
            if (machine_.tree[node].kind == NodeKind::package) add_panel(node);
        }
        add_rest();
    }

    PictureContents take() { return std::move(contents_); }

  private:
    void find_nics() {
        std::map<topology::PciAddress, std::size_t> known;
        for (std::size_t rail = 0; rail < survey_.rails.size(); ++rail) {
            const auto& pci = survey_.rails[rail].pci;
            const auto nic = std::find_if(machine_.nics.begin(), machine_.nics.end(),
                                          [&](const topology::NicDesc& n) { return n.pci == pci; });
            if (nic == machine_.nics.end()) {
                contents_.placeless.push_back(rail);
                continue;
            }
            const auto [entry, fresh] = known.try_emplace(*pci, contents_.nics.size());
            if (!fresh) {
                ++contents_.nics[entry->second].rails;
                continue;
            }
            contents_.nics.push_back({rail, 1, served_gpus(rail), served_nodes(rail)});
            places_.push_back(nic->parent);
        }
    }

    Indices served_gpus(std::size_t rail) const {
        Indices gpus;
        for (std::size_t gpu = 0; gpu < survey_.map.by_gpu.size(); ++gpu) {
            if (contains(survey_.map.by_gpu[gpu], rail)) gpus.push_back(gpu);
        }
        return gpus;
    }

    std::vector<int> served_nodes(std::size_t rail) const {
        std::vector<int> nodes;
        for (std::size_t node = 0; node < survey_.map.by_numa.size(); ++node) {
            if (contains(topology::rails_in(survey_.map.by_numa[node]), rail))
                nodes.push_back(static_cast<int>(node));
        }
        return nodes;
    }

    bool holds_devices(std::size_t node) const {
        auto inside = [&](std::size_t place) { return topology::is_above(machine_, node, place); };
        return std::any_of(places_.begin(), places_.end(), inside) ||
               std::any_of(machine_.gpus.begin(), machine_.gpus.end(),
                           [&](const topology::GpuDesc& gpu) { return inside(gpu.parent); });
    }

    /// Devices and groups below a bridge, still without anybody's own NICs.
    PictureGroup collect(std::size_t node) const {
        PictureGroup group;
        const topology::TreeNode& place = machine_.tree[node];
        if (place.kind == NodeKind::host_bridge) {
            group.title = "Host bridge " + to_string(place.pci).substr(0, to_string(place.pci).size() - 5);
        } else {
            group.title = "PCIe switch " + to_string(place.pci);
        }
        for (std::size_t nic = 0; nic < places_.size(); ++nic) {
            if (places_[nic] == node) group.nics.push_back(nic);
        }
        for (std::size_t gpu = 0; gpu < machine_.gpus.size(); ++gpu) {
            if (machine_.gpus[gpu].parent == node) group.gpus.push_back({gpu, {}, {}});
        }
        for (std::size_t child = node + 1; child < machine_.tree.size(); ++child) {
            if (machine_.tree[child].parent == node && holds_devices(child)) put_into(group, collect(child));
        }
        if (group.gpus.empty() && group.nics.empty() && group.groups.size() == 1) {
            PictureGroup only = std::move(group.groups.front());
            if (place.kind == NodeKind::host_bridge) {
                only.subtitle = only.title;
                only.title = group.title;
            }
            return only;
        }
        return group;
    }

    static void put_into(PictureGroup& group, PictureGroup child) {
        if (child.groups.empty() && child.gpus.size() + child.nics.size() == 1) {
            group.gpus.insert(group.gpus.end(), child.gpus.begin(), child.gpus.end());
            group.nics.insert(group.nics.end(), child.nics.begin(), child.nics.end());
        } else {
            group.groups.push_back(std::move(child));
        }
    }

    /// Moves each NIC that serves one GPU of its group alone under that GPU.
    void assign(PictureGroup& group) const {
        auto by_bus = [&](const PictureGpu& a, const PictureGpu& b) { return a.gpu < b.gpu; };
        std::sort(group.gpus.begin(), group.gpus.end(), by_bus);
        std::sort(group.nics.begin(), group.nics.end());
        const Indices here = group.nics;
        for (PictureGpu& gpu : group.gpus) {
            for (std::size_t nic = 0; nic < contents_.nics.size(); ++nic) {
                if (!contains(contents_.nics[nic].gpus, gpu.gpu)) continue;
                if (!contains(here, nic)) {
                    gpu.distant.push_back(nic);
                } else if (contents_.nics[nic].gpus.size() == 1) {
                    gpu.own.push_back(nic);
                    std::erase(group.nics, nic);
                }
            }
        }
        for (PictureGroup& inner : group.groups)
            assign(inner);
    }

    std::vector<PictureGroup> bridges_on(std::size_t parent) const {
        std::vector<PictureGroup> groups;
        for (std::size_t node = 0; node < machine_.tree.size(); ++node) {
            if (machine_.tree[node].kind != NodeKind::host_bridge || machine_.tree[node].parent != parent)
                continue;
            if (!holds_devices(node)) continue;
            groups.push_back(collect(node));
            assign(groups.back());
        }
        return groups;
    }

    void add_panel(std::size_t package) {
        PicturePanel panel{
            "Package " + std::to_string(machine_.tree[package].number), {}, bridges_on(package)};
        for (const topology::NumaNode& node : machine_.numa) {
            if (node.node == machine_.tree[package].numa && node_places_.insert({node.node, package}).second)
                panel.nodes.push_back(node);
        }
        contents_.panels.push_back(std::move(panel));
    }

    /// What belongs to no package, where there is such a thing.
    void add_rest() {
        PicturePanel panel{"On no particular package", {}, {}};
        if (!machine_.tree.empty()) panel.groups = bridges_on(0);
        for (const topology::NumaNode& node : machine_.numa) {
            if (!node_places_.contains(node.node)) panel.nodes.push_back(node);
        }
        if (!panel.groups.empty() || !panel.nodes.empty()) contents_.panels.push_back(std::move(panel));
    }

    const Survey& survey_;
    const topology::Machine& machine_;
    Indices places_;                          // of each NIC: the node that it hangs on
    std::map<int, std::size_t> node_places_;  // NUMA node -> package
    PictureContents contents_;
};

}  // namespace

PictureContents picture_contents(const Survey& survey) {
    return Builder(survey).take();
}

}  // namespace railyard::tools
