// Cuts the pieces of a transfer into chunks. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rail/work.h"

namespace railyard {

/// One descriptor pair: `length` bytes between `local` and `remote`.
struct Piece {
    std::uint64_t local = 0;
    std::uint64_t remote = 0;
    std::uint64_t length = 0;
    std::uint32_t local_region = 0;
    std::uint32_t remote_region = 0;
};

/// Which of a peer's rails one of ours talks to, where the peer has more. spread: evenly over them, as any
/// NIC reaches any other. in_order: the first to the first, as interfaces of one network have the same place
/// on both sides, and the second rails of the devices follow behind the first of them all.
enum class Pairing : std::uint8_t { spread, in_order };

struct StripeRules {
    std::size_t rails = 1;
    std::uint64_t threshold = 0;   ///< total bytes from which a transfer is striped
    std::uint64_t chunk_size = 0;  ///< largest chunk of a striped transfer; 0: chosen here
    std::uint64_t max_chunk = 0;   ///< what one operation can carry at all; at most 4 GiB - 1
    Pairing pairing = Pairing::spread;
    /// Chunks that each rail gets of a block, where it is long enough for so many. Several, so that a slow
    /// rail can have less than a fast one.
    std::uint64_t chunks_a_rail = 4;
};

struct Stripes {
    std::vector<Chunk> chunks;  ///< every byte of every piece exactly once, in order
    bool striped = false;
    std::uint32_t run_length = 16;     ///< at most 32; chunks one rail should take in one go
    std::uint32_t share = UINT32_MAX;  ///< chunks that one rail may have outstanding
    std::uint64_t total_bytes = 0;
};

/// Zero-length pieces give no chunk. Throws Error{invalid_param} past 2^30 chunks.
[[nodiscard]] Stripes stripe(std::span<const Piece> pieces, const StripeRules& rules);

}  // namespace railyard
