// CRC-32 (IEEE 802.3) for the envelopes of metadata: catches damage in transit, not forgery.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace railyard {

namespace detail {
constexpr std::array<std::uint32_t, 256> make_crc32_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t value = i;
        for (int bit = 0; bit < 8; ++bit)
            value = (value >> 1) ^ ((value & 1) ? 0xEDB88320u : 0u);
        table[i] = value;
    }
    return table;
}
inline constexpr std::array<std::uint32_t, 256> crc32_table = make_crc32_table();
}  // namespace detail

[[nodiscard]] constexpr std::uint32_t crc32(std::string_view bytes) noexcept {
    std::uint32_t value = 0xFFFFFFFFu;
    for (char c : bytes)
        value = (value >> 8) ^ detail::crc32_table[(value ^ static_cast<unsigned char>(c)) & 0xFF];
    return value ^ 0xFFFFFFFFu;
}

}  // namespace railyard
