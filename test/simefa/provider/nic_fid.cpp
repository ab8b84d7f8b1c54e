#include "provider/nic_fid.h"

#include <arpa/inet.h>
#include <rdma/fi_errno.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "provider/device_limits.h"
#include "provider/environment.h"
#include "provider/fids.h"

namespace simefa {
namespace {

int close_nic(fid* handle) {
    auto* nic = reinterpret_cast<fid_nic*>(handle);
    if (fi_device_attr* device = nic->device_attr) {
        for (char* text : {device->name, device->device_id, device->device_version, device->vendor_id,
                           device->driver, device->firmware})
            std::free(text);
        std::free(device);
    }
    if (fi_link_attr* link = nic->link_attr) {
        std::free(link->address);
        std::free(link->network_type);
        std::free(link);
    }
    std::free(nic->bus_attr);
    std::free(nic);
    return 0;
}

int control_nic(fid* handle, int command, void* argument);

fi_ops nic_ops = {
    .size = sizeof(fi_ops),
    .close = close_nic,
    .bind = unsupported,
    .control = control_nic,
    .ops_open = unsupported,
    .tostr = nullptr,
    .ops_set = unsupported,
};

char* copy_text(const char* text) {
    return text ? strdup(text) : nullptr;
}

template <class T>
T* make_zeroed() {
    // Slack: a newer libfabric copies structures that have grown since these headers.
    return static_cast<T*>(std::calloc(1, sizeof(T) + 256));
}

fid_nic* make_empty() {
    fid_nic* nic = make_zeroed<fid_nic>();
    if (!nic) return nullptr;
    nic->fid.fclass = FI_CLASS_NIC;
    nic->fid.ops = &nic_ops;
    nic->device_attr = make_zeroed<fi_device_attr>();
    nic->bus_attr = make_zeroed<fi_bus_attr>();
    nic->link_attr = make_zeroed<fi_link_attr>();
    if (nic->device_attr && nic->bus_attr && nic->link_attr) return nic;
    close_nic(&nic->fid);
    return nullptr;
}

int control_nic(fid* handle, int command, void* argument) {
    if (command != FI_DUP) return -FI_ENOSYS;
    const auto* from = reinterpret_cast<const fid_nic*>(handle);
    fid_nic* copy = make_empty();
    if (!copy) return -FI_ENOMEM;
    const fi_device_attr& device = *from->device_attr;
    *copy->device_attr = {copy_text(device.name),           copy_text(device.device_id),
                          copy_text(device.device_version), copy_text(device.vendor_id),
                          copy_text(device.driver),         copy_text(device.firmware)};
    *copy->bus_attr = *from->bus_attr;
    *copy->link_attr = *from->link_attr;
    copy->link_attr->address = copy_text(from->link_attr->address);
    copy->link_attr->network_type = copy_text(from->link_attr->network_type);
    *static_cast<fid**>(argument) = &copy->fid;
    return 0;
}

std::uint64_t hash(const std::string& text, std::uint64_t value) noexcept {
    for (const char c : text)
        value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    return value ^ value >> 32;
}

}  // namespace

void fill_gid(std::uint8_t (&gid)[16], const std::string& host, const std::string& nic) noexcept {
    const std::uint64_t device = hash(nic, hash(host, 0xcbf29ce484222325ULL) * 31);
    std::memset(gid, 0, sizeof(gid));
    gid[0] = 0xfe;
    gid[1] = 0x80;
    std::memcpy(gid + 8, &device, sizeof(device));
}

std::string gid_text(const std::uint8_t (&gid)[16]) {
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(AF_INET6, gid, text, sizeof(text));
    return text;
}

fid_nic* make_nic(const NicDescription& nic, bool link_up) {
    fid_nic* made = make_empty();
    if (!made) return nullptr;
    char id[16];
    std::snprintf(id, sizeof(id), "0x%x", nic.device_id);
    *made->device_attr = {copy_text(nic.name.c_str()), copy_text(id),    copy_text("6"),
                          copy_text("0x1d0f"),         copy_text("efa"), copy_text("0.0.0.0")};
    made->bus_attr->bus_type = FI_BUS_PCI;
    made->bus_attr->attr.pci = {nic.pci_domain, nic.bus, nic.device, nic.function};
    std::uint8_t gid[16];
    fill_gid(gid, environment().host, nic.name);
    fi_link_attr& link = *made->link_attr;
    link.address = copy_text(("EFA-" + gid_text(gid)).c_str());
    link.mtu = mtu;
    link.speed = nic.link_bits;
    link.state = link_up ? FI_LINK_UP : FI_LINK_DOWN;
    link.network_type = copy_text("Ethernet");
    return made;
}

}  // namespace simefa
