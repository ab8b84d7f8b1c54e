#include "topology/infiniband.h"

#include <system_error>

namespace railyard::topology {

std::optional<PciAddress> pci_of_infiniband(const std::string& device, const std::filesystem::path& all) {
    std::error_code error;
    std::filesystem::path place = std::filesystem::canonical(all / device / "device", error);
    if (error) return std::nullopt;
    for (; place.has_relative_path(); place = place.parent_path()) {
        if (const auto address = parse_pci_address(place.filename().string())) return address;
    }
    return std::nullopt;
}

}  // namespace railyard::topology
