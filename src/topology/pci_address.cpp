#include "topology/pci_address.h"

#include <charconv>
#include <cstdio>

namespace railyard::topology {
namespace {

/// Takes a hexadecimal number of `low` to `high` digits off the front.
std::optional<std::uint32_t> take_hex(std::string_view& text, std::size_t low, std::size_t high) noexcept {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    const auto digits = static_cast<std::size_t>(end - text.data());
    if (error != std::errc() || digits < low || digits > high) return std::nullopt;
    text.remove_prefix(digits);
    return value;
}

bool take(std::string_view& text, char expected) noexcept {
    if (text.empty() || text.front() != expected) return false;
    text.remove_prefix(1);
    return true;
}

}  // namespace

std::optional<PciAddress> parse_pci_address(std::string_view text) noexcept {
    PciAddress address;
    if (text.find(':') != text.rfind(':')) {
        const auto domain = take_hex(text, 1, 8);
        if (!domain || !take(text, ':')) return std::nullopt;
        address.domain = *domain;
    }
    const auto bus = take_hex(text, 1, 2);
    if (!bus || !take(text, ':')) return std::nullopt;
    const auto device = take_hex(text, 1, 2);
    if (!device || *device > 31 || !take(text, '.')) return std::nullopt;
    const auto function = take_hex(text, 1, 1);
    if (!function || *function > 7 || !text.empty()) return std::nullopt;
    address.bus = static_cast<std::uint8_t>(*bus);
    address.device = static_cast<std::uint8_t>(*device);
    address.function = static_cast<std::uint8_t>(*function);
    return address;
}

std::string to_string(const PciAddress& address) {
    char text[32];
    std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", address.domain, address.bus, address.device,
                  address.function);
    return text;
}

}  // namespace railyard::topology
