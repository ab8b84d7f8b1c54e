// CRC-32 (IEEE 802.3) for what travels: catches damage in transit, not forgery. Eight bytes a step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace railyard {

namespace detail {
using Crc32Table = std::array<std::uint32_t, 256>;

/// Table k has the remainder of each byte value with k zero bytes behind it.
constexpr std::array<Crc32Table, 8> make_crc32_tables() {
    std::array<Crc32Table, 8> tables{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t value = i;
        for (int bit = 0; bit < 8; ++bit)
            value = (value >> 1) ^ ((value & 1) ? 0xEDB88320u : 0u);
        tables[0][i] = value;
    }
    for (std::size_t k = 1; k < tables.size(); ++k) {
        for (std::size_t i = 0; i < 256; ++i)
            tables[k][i] = (tables[k - 1][i] >> 8) ^ tables[0][tables[k - 1][i] & 0xFF];
    }
    return tables;
}
inline constexpr std::array<Crc32Table, 8> crc32_tables = make_crc32_tables();

/// Four bytes, the first one lowest; one load where the machine is little-endian.
constexpr std::uint32_t crc32_word(const char* bytes) noexcept {
    std::uint32_t word = 0;
    for (unsigned i = 0; i < 4; ++i)
        word |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    return word;
}
}  // namespace detail

[[nodiscard]] constexpr std::uint32_t crc32(std::string_view bytes) noexcept {
    const auto& tables = detail::crc32_tables;
    std::uint32_t value = 0xFFFFFFFFu;
    const char* at = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= 8; at += 8, left -= 8) {
        const std::uint32_t low = value ^ detail::crc32_word(at);
        const std::uint32_t high = detail::crc32_word(at + 4);
        value = tables[7][low & 0xFF] ^ tables[6][(low >> 8) & 0xFF] ^ tables[5][(low >> 16) & 0xFF] ^
                tables[4][low >> 24] ^ tables[3][high & 0xFF] ^ tables[2][(high >> 8) & 0xFF] ^
                tables[1][(high >> 16) & 0xFF] ^ tables[0][high >> 24];
    }
    for (; left > 0; ++at, --left)
        value = (value >> 8) ^ tables[0][(value ^ static_cast<unsigned char>(*at)) & 0xFF];
    return value ^ 0xFFFFFFFFu;
}

}  // namespace railyard
