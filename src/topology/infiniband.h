// Where an RDMA device sits, by the kernel's word.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "topology/pci_address.h"

namespace railyard::topology {

/// The PCI address of "mlx5_0" or the like: of its parent where it is only a part of one (a subfunction).
/// Nothing for one that the kernel does not know, or has in software.
[[nodiscard]] std::optional<PciAddress> pci_of_infiniband(
    const std::string& device, const std::filesystem::path& all = "/sys/class/infiniband");

}  // namespace railyard::topology
