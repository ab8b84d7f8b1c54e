// The bytes in which one embedded host describes itself to another: names, connection info, registered
// regions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace railyard::host {

/// One registered region with what the plugin published for it.
struct PublishedRegion {
    std::uint64_t address = 0;
    std::uint64_t length = 0;  ///< bytes
    std::uint64_t device = 0;  ///< as in host::Range
    std::string metadata;
};

struct PeerDescription {
    std::string agent;
    std::string plugin;
    std::string connection_info;
    std::vector<PublishedRegion> regions;
};

/// Magic, version, body, CRC-32 of all before it; integers are little-endian.
[[nodiscard]] std::string encode(const PeerDescription& description);

/// Throws Error{mismatch} that says what is wrong: not ours, another version, truncated, damaged. Allocates
/// no more than a small multiple of the blob's size, whatever the blob claims.
[[nodiscard]] PeerDescription decode(std::string_view blob);

}  // namespace railyard::host
