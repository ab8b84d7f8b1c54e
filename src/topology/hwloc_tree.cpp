#include "topology/hwloc_tree.h"

#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "common/log.h"
#include "common/status.h"
#include "common/variables.h"

namespace railyard::topology {
namespace {

using PciAttributes = hwloc_obj_attr_u::hwloc_pcidev_attr_s;
using BridgeAttributes = hwloc_obj_attr_u::hwloc_bridge_attr_s;

constexpr unsigned vendor_amazon = 0x1d0f, vendor_nvidia = 0x10de;

struct Destroy {
    void operator()(hwloc_topology* topology) const noexcept { hwloc_topology_destroy(topology); }
};
using TopologyPtr = std::unique_ptr<hwloc_topology, Destroy>;

/// hwloc's plugins that would start GPU run times in this process only to count devices.
constexpr const char* unwanted_components[] = {"opencl", "cuda", "nvml", "rsmi", "levelzero", "gl"};

[[noreturn]] void reject_file(const std::string& path, const std::string& why) {
    throw Error(Status::invalid_param,
                "topology file \"" + path + "\" cannot be read: " + why +
                    ". Give the path of an hwloc XML file, as `lstopo --of xml FILE` writes one");
}

/// hwloc unloads its plugins after the last topology, and what the PCI one's library holds is lost each time:
/// 1016 bytes a topology with 2.9, as LeakSanitizer counts. One topology that stays keeps them loaded.
void keep_plugins_loaded() {
    [[gnu::used]] static hwloc_topology* const keeper = [] {
        hwloc_topology* made = nullptr;
        hwloc_topology_init(&made);
        return made;
    }();
    static_cast<void>(keeper);
}

/// What HWLOC_XMLFILE names, which hwloc looks at by itself, and what to do when it is wrong; empty: nothing.
std::string file_in_environment() {
    const std::string named = in_environment({"HWLOC_XMLFILE"});
    if (named.empty() || named.ends_with("\"\"")) return {};
    return named + ": name an hwloc XML file there, as `lstopo --of xml FILE` writes one, or unset it";
}

TopologyPtr load(const std::string& xml_path) {
    keep_plugins_loaded();
    hwloc_topology* made = nullptr;
    if (hwloc_topology_init(&made) != 0) throw Error(Status::backend, "hwloc_topology_init failed");
    TopologyPtr topology(made);
    for (const char* component : unwanted_components)
        hwloc_topology_set_components(made, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
    hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_cache_types_filter(made, HWLOC_TYPE_FILTER_KEEP_NONE);
    if (!xml_path.empty() && hwloc_topology_set_xml(made, xml_path.c_str()) != 0)
        reject_file(xml_path, errno == EINVAL ? "no such file, or not hwloc's XML" : std::strerror(errno));
    if (hwloc_topology_load(made) == 0) return topology;
    if (!xml_path.empty()) reject_file(xml_path, "not hwloc's XML, or damaged");
    const std::string why = std::string("hwloc_topology_load failed: ") + std::strerror(errno),
                      file = file_in_environment();
    throw Error(Status::backend, file.empty() ? why : why + file);
}

PciAddress address_of(const PciAttributes& pci) {
    return {static_cast<std::uint32_t>(pci.domain), pci.bus, pci.dev, pci.func};
}

bool is_gpu_device(hwloc_obj_t osdev) {
    if (osdev->attr->osdev.type == HWLOC_OBJ_OSDEV_GPU) return false;  // a display, not a processor
    if (osdev->attr->osdev.type != HWLOC_OBJ_OSDEV_COPROC || !osdev->subtype) return false;
    if (std::strcmp(osdev->subtype, "CUDA") == 0) return true;
    const char* kind = hwloc_obj_get_info_by_name(osdev, "OpenCLDeviceType");
    return std::strcmp(osdev->subtype, "OpenCL") == 0 && (!kind || std::strcmp(kind, "GPU") == 0);
}

bool has_gpu_device(hwloc_obj_t device) {
    for (hwloc_obj_t child = device->io_first_child; child; child = child->next_sibling) {
        if (child->type == HWLOC_OBJ_OS_DEVICE && is_gpu_device(child)) return true;
    }
    return false;
}

/// All CPUs there, those among them that this process may not use (cpuset.cpus of its cgroup).
hwloc_const_bitmap_t all_cpus(hwloc_obj_t node) {
    return node->complete_cpuset ? node->complete_cpuset : node->cpuset;
}

/// A node beside that of the CPUs next to it: of a GPU, on the package, or behind CXL.
bool is_further_memory(hwloc_obj_t node) {
    if (!all_cpus(node) || hwloc_bitmap_iszero(all_cpus(node))) return true;
    const std::string_view kind = node->subtype ? node->subtype : "";
    return kind == "GPUMemory" || kind == "HBM" || kind == "MCDRAM" || kind.starts_with("CXL");
}

/// The RDMA device's name, else the network interface's.
std::string nic_name(hwloc_obj_t device) {
    std::string name;
    for (hwloc_obj_t child = device->io_first_child; child; child = child->next_sibling) {
        if (child->type != HWLOC_OBJ_OS_DEVICE || !child->name) continue;
        if (child->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) return child->name;
        if (child->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK) name = child->name;
    }
    return name;
}

/// The link says how fast an EFA is; where the kernel does not know the link, its generation does.
double nic_rate(const PciAttributes& pci, bool efa) {
    const double by_link = rate_of_link(static_cast<double>(pci.linkspeed));
    if (by_link > 0 || !efa) return by_link;
    switch (pci.device_id) {
        case 0xefa0:
        case 0xefa1:
            return 100;
        case 0xefa2:
            return 200;
        default:
            return 400;
    }
}

class Reader {
  public:
    explicit Reader(hwloc_topology_t topology) : topology_(topology) {}

    Machine read() {
        machine_.this_machine = hwloc_topology_is_thissystem(topology_) != 0;
        walk(hwloc_get_root_obj(topology_), no_parent);
        read_nodes();
        auto by_bus = [](const auto& a, const auto& b) { return a.pci < b.pci; };
        std::sort(machine_.nics.begin(), machine_.nics.end(), by_bus);
        std::sort(machine_.gpus.begin(), machine_.gpus.end(), by_bus);
        for (std::size_t i = 0; i < machine_.gpus.size(); ++i)
            machine_.gpus[i].ordinal = static_cast<int>(i);
        return std::move(machine_);
    }

  private:
    /// The node of the CPUs there: of several of the same CPUs the first, which is their DRAM.
    int numa_of(hwloc_obj_t object) const {
        hwloc_obj_t place = object;
        while (place && !place->nodeset)
            place = place->parent;
        if (!place) return unknown_numa;
        hwloc_obj_t own = nullptr;
        for (int i = hwloc_bitmap_first(place->nodeset); i >= 0; i = hwloc_bitmap_next(place->nodeset, i)) {
            hwloc_obj_t node = hwloc_get_numanode_obj_by_os_index(topology_, static_cast<unsigned>(i));
            if (!node || is_further_memory(node)) continue;
            if (own && !hwloc_bitmap_isequal(all_cpus(own), all_cpus(node))) return unknown_numa;
            if (!own) own = node;
        }
        if (own) return static_cast<int>(own->os_index);
        return hwloc_bitmap_weight(place->nodeset) == 1 ? hwloc_bitmap_first(place->nodeset) : unknown_numa;
    }

    void walk(hwloc_obj_t object, std::size_t parent) {
        const std::size_t place = add(object, parent);
        for (hwloc_obj_t child = object->first_child; child; child = child->next_sibling)
            walk(child, place);
        for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling)
            walk(child, place);
    }

    /// What the object's children hang on: the object itself where it has a node in the tree, else `parent`.
    std::size_t add(hwloc_obj_t object, std::size_t parent) {
        TreeNode node;
        node.parent = parent;
        node.numa = numa_of(object);
        switch (object->type) {
            case HWLOC_OBJ_MACHINE:
                break;
            case HWLOC_OBJ_PACKAGE:
                node.kind = NodeKind::package;
                node.number = static_cast<int>(object->os_index);
                break;
            case HWLOC_OBJ_BRIDGE:
                describe_bridge(object->attr->bridge, node);
                break;
            case HWLOC_OBJ_PCI_DEVICE:
                add_device(object, parent);
                return parent;
            default:
                return parent;
        }
        machine_.tree.push_back(node);
        return machine_.tree.size() - 1;
    }

    static void describe_bridge(const BridgeAttributes& bridge, TreeNode& node) {
        if (bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST) {
            node.kind = NodeKind::host_bridge;
            node.pci.domain = static_cast<std::uint32_t>(bridge.downstream.pci.domain);
            node.pci.bus = bridge.downstream.pci.secondary_bus;
        } else {
            node.kind = NodeKind::pci_bridge;
            node.pci = address_of(bridge.upstream.pci);
        }
    }

    void add_device(hwloc_obj_t object, std::size_t parent) {
        const PciAttributes& pci = object->attr->pcidev;
        const unsigned base_class = pci.class_id >> 8;
        if (base_class == 0x02 || pci.class_id == 0x0c06) {
            const bool efa = pci.vendor_id == vendor_amazon && pci.device_id >> 4 == 0xefa;
            machine_.nics.push_back({nic_name(object), address_of(pci), nic_rate(pci, efa), numa_of(object),
                                     efa, parent, pci.device_id});
        } else if ((base_class == 0x03 && pci.vendor_id == vendor_nvidia) || has_gpu_device(object)) {
            machine_.gpus.push_back({-1, address_of(pci), numa_of(object),
                                     rate_of_link(static_cast<double>(pci.linkspeed)), parent});
        }
    }

    void read_nodes() {
        hwloc_obj_t node = nullptr;
        while ((node = hwloc_get_next_obj_by_type(topology_, HWLOC_OBJ_NUMANODE, node)) != nullptr)
            machine_.numa.push_back({static_cast<int>(node->os_index), node->attr->numanode.local_memory,
                                     distances_from(node), cpus_of(node)});
        std::sort(machine_.numa.begin(), machine_.numa.end(),
                  [](const NumaNode& a, const NumaNode& b) { return a.node < b.node; });
    }

    static std::vector<int> cpus_of(hwloc_obj_t node) {
        std::vector<int> cpus;
        if (!node->cpuset) return cpus;
        for (int cpu = hwloc_bitmap_first(node->cpuset); cpu >= 0; cpu = hwloc_bitmap_next(node->cpuset, cpu))
            cpus.push_back(cpu);
        return cpus;
    }

    /// By number of the node, as Machine::numa is sorted.
    std::vector<std::uint64_t> distances_from(hwloc_obj_t from) const {
        unsigned count = 1;
        hwloc_distances_s* table = nullptr;
        const int rc = hwloc_distances_get_by_type(topology_, HWLOC_OBJ_NUMANODE, &count, &table,
                                                   HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0);
        if (rc != 0 || count == 0 || !table) return {};
        std::vector<std::pair<unsigned, std::uint64_t>> row;
        for (unsigned i = 0; i < table->nbobjs; ++i) {
            if (table->objs[i] != from) continue;
            for (unsigned j = 0; j < table->nbobjs; ++j)
                row.emplace_back(table->objs[j]->os_index, table->values[i * table->nbobjs + j]);
        }
        const bool whole =
            static_cast<int>(table->nbobjs) == hwloc_get_nbobjs_by_type(topology_, HWLOC_OBJ_NUMANODE);
        hwloc_distances_release(topology_, table);
        if (!whole) return {};
        std::sort(row.begin(), row.end());
        std::vector<std::uint64_t> distances;
        for (const auto& [number, value] : row)
            distances.push_back(value);
        return distances;
    }

    hwloc_topology_t topology_;
    Machine machine_;
};

void warn_of_unread_file() {
    const std::string file = file_in_environment();
    if (file.empty()) return;
    RAILYARD_LOG(warn, "", "hwloc cannot read its topology file, and takes this machine's topology instead%s",
                 file.c_str());
}

}  // namespace

Machine read_machine(const std::string& xml_path) {
    const TopologyPtr topology = load(xml_path);
    Machine machine = Reader(topology.get()).read();
    if (machine.this_machine && in_environment({"HWLOC_THISSYSTEM"}).empty()) warn_of_unread_file();
    return machine;
}

}  // namespace railyard::topology
