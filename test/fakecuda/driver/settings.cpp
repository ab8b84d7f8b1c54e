#include "settings.h"

#include <hwloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>

namespace fakecuda {
namespace {

long number(const char* name, long otherwise) {
    const char* text = std::getenv(name);
    return text && *text ? std::strtol(text, nullptr, 0) : otherwise;
}

bool is_gpu(hwloc_obj_t object) {
    const auto& pci = object->attr->pcidev;
    return pci.vendor_id == 0x10de && pci.class_id >> 8 == 0x03;
}

using Word = unsigned long long;

Word name_of_bridge(Word domain, Word bus, Word device, Word function) {
    return Word{1} << 63 | domain << 24 | bus << 16 | device << 8 | function;
}

Word topmost_bridge(hwloc_obj_t pci) {
    Word topmost = 0;
    for (hwloc_obj_t up = pci->parent; up && up->type == HWLOC_OBJ_BRIDGE; up = up->parent) {
        if (up->attr->bridge.upstream_type != HWLOC_OBJ_BRIDGE_PCI) continue;
        const auto& at = up->attr->bridge.upstream.pci;
        topmost = name_of_bridge(at.domain, at.bus, at.dev, at.func);
    }
    return topmost;
}

std::vector<DeviceDescription> devices_of(const char* xml) {
    std::vector<DeviceDescription> devices;
    hwloc_topology_t topology = nullptr;
    if (hwloc_topology_init(&topology) != 0) return devices;
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_set_xml(topology, xml) != 0 || hwloc_topology_load(topology) != 0) {
        std::fprintf(stderr, "fakecuda: hwloc cannot read %s\n", xml);
    } else {
        for (hwloc_obj_t pci = nullptr; (pci = hwloc_get_next_pcidev(topology, pci));) {
            const auto& at = pci->attr->pcidev;
            if (is_gpu(pci))
                devices.push_back({static_cast<unsigned>(at.domain), at.bus, at.dev, topmost_bridge(pci)});
        }
    }
    hwloc_topology_destroy(topology);
    std::sort(devices.begin(), devices.end(), [](const DeviceDescription& a, const DeviceDescription& b) {
        return std::tie(a.pci_domain, a.bus, a.device) < std::tie(b.pci_domain, b.bus, b.device);
    });
    return devices;
}

std::vector<DeviceDescription> all_devices() {
    const long invented = number("FAKECUDA_DEVICES", -1);
    std::vector<DeviceDescription> devices;
    if (invented >= 0) {
        for (long i = 0; i < invented; ++i)
            devices.push_back({0, static_cast<unsigned>(0x10 + i), 0, 0});
    } else if (const char* xml = std::getenv("HWLOC_XMLFILE"); xml && *xml) {
        devices = devices_of(xml);
    }
    return devices;
}

}  // namespace

std::vector<std::size_t> visible_devices(const char* list, std::size_t count) {
    std::vector<std::size_t> visible;
    if (!list) {
        for (std::size_t i = 0; i < count; ++i)
            visible.push_back(i);
        return visible;
    }
    while (*list) {
        char* end = nullptr;
        const long ordinal = std::strtol(list, &end, 10);
        const bool number_here = end != list && (*end == 0 || *end == ',');
        if (!number_here || ordinal < 0 || static_cast<std::size_t>(ordinal) >= count) break;
        const auto index = static_cast<std::size_t>(ordinal);
        // The driver shows no device at all when one is named twice.
        if (std::find(visible.begin(), visible.end(), index) != visible.end()) return {};
        visible.push_back(index);
        list = *end ? end + 1 : end;
    }
    return visible;
}

Settings read_settings() {
    Settings settings;
    settings.guard = number("FAKECUDA_GUARD", 1) != 0;
    settings.late = number("FAKECUDA_LATE", 0) != 0;
    settings.seed = static_cast<unsigned long>(number("FAKECUDA_SEED", 1));
    settings.delay_us = static_cast<unsigned>(number("FAKECUDA_DELAY_US", 0));
    settings.writes_ordering = static_cast<int>(number("FAKECUDA_WRITES_ORDERING", settings.late ? 0 : 100));
    settings.flush_options = static_cast<int>(number("FAKECUDA_FLUSH_OPTIONS", 1));
    settings.gpu_direct = number("FAKECUDA_GPU_DIRECT", 1) != 0;
    settings.dmabuf = number("FAKECUDA_DMABUF", 1) != 0;
    settings.c2c = number("FAKECUDA_C2C", 0) != 0;
    settings.memory = static_cast<std::size_t>(number("FAKECUDA_MEMORY_MIB", 16384)) << 20;
    if (const char* fail = std::getenv("FAKECUDA_FAIL")) settings.fail = fail;
    const std::vector<DeviceDescription> all = all_devices();
    for (const std::size_t index : visible_devices(std::getenv("CUDA_VISIBLE_DEVICES"), all.size()))
        settings.devices.push_back(all[index]);
    return settings;
}

}  // namespace fakecuda
