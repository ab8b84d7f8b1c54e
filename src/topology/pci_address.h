// PCI addresses as values: what joins a NIC of libfabric, a GPU of the driver and a device of the topology.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace railyard::topology {

/// Orders as the bus is numbered: domain, bus, device, function.
struct PciAddress {
    std::uint32_t domain = 0;  ///< more than 16 bits on machines with a Volume Management Device
    std::uint8_t bus = 0;
    std::uint8_t device = 0;    ///< 0 to 31
    std::uint8_t function = 0;  ///< 0 to 7

    auto operator<=>(const PciAddress&) const = default;
};

/// Reads "dddd:bb:dd.f" in any case; the domain may have up to eight digits, as drivers print it, or be left
/// out, which means 0. Nothing for any other text.
[[nodiscard]] std::optional<PciAddress> parse_pci_address(std::string_view text) noexcept;

/// "dddd:bb:dd.f" in lower case, with more digits of the domain where they are needed.
[[nodiscard]] std::string to_string(const PciAddress& address);

}  // namespace railyard::topology
