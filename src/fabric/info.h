// Discovery: which devices libfabric offers, and which of them become rails.
#pragma once

#include <rdma/fabric.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/provider_caps.h"

namespace railyard::fabric {

struct InfoDeleter {
    void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
};
using InfoPtr = std::unique_ptr<fi_info, InfoDeleter>;

/// What a NIC says of itself.
struct NicPlace {
    bool on_pci_bus = false;
    std::uint16_t domain = 0;
    std::uint8_t bus = 0, device = 0, function = 0;
    double gbps = 0;  ///< link speed; 0: unknown
};

/// One device that can carry a rail.
struct Device {
    InfoPtr info;
    /// libfabric's name, e.g. "net", "tcp;ofi_rxm", "efa"; with "-msg" behind it where there is a connection
    /// a peer: the two do not understand each other.
    std::string provider;
    std::string family;  ///< our name for it: efa-direct, efa, cxi, verbs, tcp, shm, verbs-msg, tcp-msg
    std::string name;    ///< the device or network interface
    ProviderCaps caps;
    NicPlace nic;
};

/// From this interface version on EFA uses the device's RDMA; asked for less, it emulates READ and WRITE with
/// messages.
inline constexpr std::uint32_t efa_rdma_version = FI_VERSION(1, 18);

/// Of the names of families and providers with a connection a peer.
inline constexpr std::string_view connected_suffix = "-msg";

/// Parsed form of the `devices` setting.
struct DeviceFilter {
    std::vector<std::string> names;
    bool exclude = false;
    [[nodiscard]] bool empty() const noexcept { return names.empty(); }
    [[nodiscard]] bool allows(std::string_view name) const noexcept;
    /// Its names are in an order that counts.
    [[nodiscard]] bool orders() const noexcept { return !empty() && !exclude; }
};
/// "a,b" or "^a,b". Throws Error{invalid_param} for an empty name or a stray ^.
[[nodiscard]] DeviceFilter parse_device_filter(std::string_view text);

/// Whether the log is told of names that no device has, and of EFAs that libfabric leaves out: not where
/// somebody only looks whether there are any.
enum class Absent { told, untold };

/// Where the kernel lists RDMA devices.
inline constexpr const char* rdma_devices_of_kernel = "/sys/class/infiniband";

/// The names of our kinds of fabric: in the order in which "auto" looks, then those that it leaves out.
[[nodiscard]] std::vector<std::string_view> families();

/// Every usable device of the first provider that `provider` allows ("auto", a family or a libfabric name),
/// in the order of the filter's names, else libfabric's, one entry per device. "auto" looks in the order
/// efa-direct, efa, cxi, verbs, tcp, shm; verbs-msg and tcp-msg, with a connection a peer, it leaves out.
/// `gpu_memory`: of the families whose NICs can reach GPU memory, devices come with FI_HMEM where they have
/// it (ProviderCaps::gpu_memory). Names of the filter that no device has are `told` in a warning, and so is
/// "auto" that goes past EFAs below `rdma_devices` as libfabric offers none. `after`: only what comes behind
/// that family. Throws Error{backend} that names which setting is wrong, and what was found.
[[nodiscard]] std::vector<Device> discover(
    std::string_view provider, const DeviceFilter& filter, bool gpu_memory = false,
    Absent absent = Absent::told, std::string_view after = {},
    const std::filesystem::path& rdma_devices = rdma_devices_of_kernel);

}  // namespace railyard::fabric
