// One application operation on fabric efa, while the protocol works on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "provider/operation.h"

namespace simefa {

struct RdmOperation {
    enum class Path : std::uint8_t {
        undecided,   ///< waits for the handshake
        native,      ///< the device does it
        packets,     ///< message or emulated WRITE: goes out in packets
        asked,       ///< emulated READ: the target sends packets
        responding,  ///< the other side of an emulated READ: ours, not the application's
    };

    Operation::Kind kind = Operation::Kind::send;
    Path path = Path::undecided;
    bool live = false, silent = false, tagged = false, has_data = false;
    bool wants_receipt = false, has_receipt = false;
    bool more = false;    ///< posted with FI_MORE, which is kept while it waits
    bool listed = false;  ///< in the list of those with something to send
    std::uint8_t segment_count = 0;
    std::uint16_t generation = 0;
    std::uint16_t index = 0;
    std::uint32_t sequence = 0;
    std::uint32_t remote_operation = 0;  ///< of `responding`: the initiator's number
    Peer* peer = nullptr;
    void* context = nullptr;
    Segment local[segment_limit];
    std::uint32_t regions[segment_limit] = {};  ///< held (RegionTable::hold); 0: none
    std::uint64_t length = 0, remote = 0, key = 0, data = 0, tag = 0;
    std::uint64_t completion_flags = 0;
    std::uint64_t queued = 0;  ///< payload bytes handed to the device (received, of `asked`)
    std::size_t packets_out = 0;
    bool header_sent = false;
    int status = 0;
    std::unique_ptr<std::byte[]> injected;
    RdmOperation* next = nullptr;

    [[nodiscard]] std::uint32_t number() const noexcept { return std::uint32_t{generation} << 16 | index; }
};

/// Copies `length` bytes between a flat buffer and the segments from `offset` on.
void gather(std::byte* to, const Segment* from, std::size_t count, std::uint64_t offset,
            std::size_t length) noexcept;
void scatter(const Segment* to, std::size_t count, std::uint64_t offset, const std::byte* from,
             std::size_t length) noexcept;

}  // namespace simefa
