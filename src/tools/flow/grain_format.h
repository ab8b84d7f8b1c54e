// What railyard-flow puts into a grain: a header of 88 bytes, then content; each is covered by a CRC-32.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "common/crc32.h"

namespace railyard::tools::flow {

inline constexpr std::uint32_t grain_magic = 0x47465952;  ///< "RYFG"
inline constexpr std::uint16_t grain_version = 1;

/// GrainHeader::flags.
enum GrainFlags : std::uint16_t {
    grain_opens = 1,    ///< first of its stream: its latency holds the connecting
    grain_of_file = 2,  ///< content is a piece of a file: `used` bytes from sequence * content_size() on
};

/// Little-endian, as it lies in memory. The time is set last, so that its own CRC covers little.
struct GrainHeader {
    std::uint32_t header_crc = 0;  ///< of the rest of the header
    std::uint32_t magic = grain_magic;
    std::uint16_t version = grain_version;
    std::uint16_t flags = 0;
    std::uint32_t content_crc = 0;
    std::uint64_t stream = 0;    ///< random; another one in each run of an initiator
    std::uint64_t sequence = 0;  ///< from 0 on
    std::uint64_t grain_size = 0;
    std::uint64_t used = 0;       ///< bytes of the content that mean something
    std::uint64_t file_size = 0;  ///< of the whole file
    std::uint64_t realtime_ns = 0;
    std::uint64_t monotonic_ns = 0;
    std::array<std::uint8_t, 16>
        boot_id{};  ///< the sender's; where the receiver's is equal, monotonic_ns counts
};
static_assert(sizeof(GrainHeader) == 88 && std::endian::native == std::endian::little);

[[nodiscard]] constexpr std::uint64_t content_size(std::uint64_t grain_size) noexcept {
    return grain_size - sizeof(GrainHeader);
}

/// Grains that a file takes; an empty file takes one.
[[nodiscard]] constexpr std::uint64_t grains_of_file(std::uint64_t file_size,
                                                     std::uint64_t grain_size) noexcept {
    const std::uint64_t piece = content_size(grain_size);
    return file_size == 0 ? 1 : file_size / piece + (file_size % piece != 0);
}

[[nodiscard]] inline std::uint32_t crc_of(const std::byte* bytes, std::size_t size) noexcept {
    return crc32(std::string_view(reinterpret_cast<const char*>(bytes), size));
}

[[nodiscard]] inline std::uint32_t content_crc_of(const std::byte* grain, std::uint64_t grain_size) noexcept {
    return crc_of(grain + sizeof(GrainHeader), content_size(grain_size));
}

[[nodiscard]] inline std::uint32_t header_crc_of(const GrainHeader& header) noexcept {
    std::array<std::byte, sizeof(GrainHeader)> bytes;
    std::memcpy(bytes.data(), &header, bytes.size());
    return crc_of(bytes.data() + sizeof(header.header_crc), bytes.size() - sizeof(header.header_crc));
}

inline void write_header(std::byte* grain, GrainHeader header) noexcept {
    header.header_crc = header_crc_of(header);
    std::memcpy(grain, &header, sizeof(header));
}

/// False where there is no whole header for a grain of this size.
[[nodiscard]] inline bool read_header(const std::byte* grain, std::uint64_t grain_size,
                                      GrainHeader& header) noexcept {
    std::memcpy(&header, grain, sizeof(header));
    return header.magic == grain_magic && header.version == grain_version &&
           header.header_crc == header_crc_of(header) && header.grain_size == grain_size &&
           header.used <= content_size(grain_size);
}

/// Content that differs in every word from that of any other sequence.
inline void fill_content(std::byte* grain, std::uint64_t grain_size, std::uint64_t sequence) noexcept {
    std::byte* at = grain + sizeof(GrainHeader);
    std::uint64_t left = content_size(grain_size);
    std::uint64_t word = (sequence + 1) * 0xD6E8FEB86659FD93u;
    for (; left >= sizeof(word); left -= sizeof(word), at += sizeof(word)) {
        std::memcpy(at, &word, sizeof(word));
        word += 0x9E3779B97F4A7C15u;
    }
    std::memcpy(at, &word, left);
}

}  // namespace railyard::tools::flow
