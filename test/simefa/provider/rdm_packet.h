// Packets of fabric efa's protocol: what one device message carries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "provider/device_limits.h"
#include "provider/operation.h"
#include "shared/layout.h"

namespace simefa {

enum class PacketType : std::uint8_t {
    handshake_request,
    handshake,
    message,
    write,
    read_request,
    read_data,
    receipt
};

inline constexpr std::uint8_t packet_tagged = 1, packet_has_data = 2, packet_wants_receipt = 4;

struct PacketHeader {
    PacketType type;
    std::uint8_t flags;
    std::uint16_t reserved;
    std::uint32_t operation;  ///< the initiator's number for what this belongs to
    Address source;
    std::uint64_t total;   ///< bytes of the whole operation
    std::uint64_t offset;  ///< of this packet's payload in it
    std::uint64_t remote;  ///< address at the target
    std::uint64_t tag;
    std::uint32_t key;
    std::uint32_t data;      ///< immediate
    std::uint32_t sequence;  ///< of messages to one target: they are matched in this order
    std::int32_t status;     ///< of a receipt
    std::uint32_t features;  ///< of a handshake
    std::uint32_t reserved2;
};

inline constexpr std::size_t payload_limit = mtu - sizeof(PacketHeader);

}  // namespace simefa
