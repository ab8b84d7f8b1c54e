#include "manager/stripe.h"

#include <algorithm>
#include <string>

#include "common/status.h"

namespace railyard {
namespace {

constexpr std::uint64_t alignment = 128;  // cuts fall on cache-line pairs of the target
constexpr std::uint64_t smallest_chunk = std::uint64_t{256} << 10;
/// Some 40 us of a 100 Gbit/s link: many times what an operation costs, and rails wait little for the last
/// one. Several fit into what a rail may have outstanding.
constexpr std::uint64_t largest_chunk = std::uint64_t{512} << 10;
/// What a rail should at least take in one go, where there is enough: a doorbell (1.25 us on EFA) is worth 16
/// small operations or some 20 us of a 100 Gbit/s link.
constexpr std::uint64_t bytes_per_run = std::uint64_t{256} << 10;
constexpr std::uint64_t operations_per_run = 16;
constexpr std::uint64_t longest_run = 32;
// Aligned cuts at most double the number, and indices have 32 bits.
constexpr std::uint64_t most_chunks = std::uint64_t{1} << 30;

std::uint64_t round_up(std::uint64_t value) {
    return (value + alignment - 1) / alignment * alignment;
}

std::uint64_t pick_chunk_size(std::uint64_t total, bool striped, const StripeRules& rules) {
    const bool whole = !striped && (!rules.chunk_size || total < rules.threshold);
    if (whole) return rules.max_chunk;
    if (rules.chunk_size) return std::clamp<std::uint64_t>(rules.chunk_size, 1, rules.max_chunk);
    // As many for each rail, so that none ends with one more than the others. Smaller ones than needed only
    // add operations.
    const std::uint64_t a_rail = std::max<std::uint64_t>(
        (total + rules.rails * largest_chunk - 1) / (rules.rails * largest_chunk), rules.chunks_a_rail);
    const std::uint64_t wanted = std::clamp(
        round_up((total + rules.rails * a_rail - 1) / (rules.rails * a_rail)), smallest_chunk, largest_chunk);
    return std::clamp<std::uint64_t>(wanted, 1, rules.max_chunk);
}

/// As long as pays, but no longer than leaves every rail two runs, if it can be.
std::uint32_t pick_run_length(const Stripes& stripes, std::size_t rails) {
    const std::uint64_t count = stripes.chunks.size();
    const std::uint64_t average = std::max<std::uint64_t>(stripes.total_bytes / count, 1);
    const std::uint64_t longest = std::clamp<std::uint64_t>(bytes_per_run / average, 1, longest_run);
    const std::uint64_t shortest = std::min(longest, operations_per_run);
    const std::uint64_t fair = stripes.striped ? count / (2 * rails) : longest;
    return static_cast<std::uint32_t>(std::clamp(fair, shortest, longest));
}

/// Equal parts of at most `limit`, cut where the target address is aligned. What the cuts leave at the end
/// goes with the last part, up to `most` bytes: a chunk of its own would make one rail's share twice
/// another's.
void cut(const Piece& piece, std::uint64_t limit, std::uint64_t most, std::vector<Chunk>& chunks) {
    std::uint64_t done = 0;
    const std::uint64_t parts = (piece.length + limit - 1) / limit;
    const std::uint64_t step = std::min(limit, round_up(piece.length / parts));
    while (done < piece.length) {
        std::uint64_t length = std::min(step, piece.length - done);
        const std::uint64_t past_cut = (piece.remote + done + length) % alignment;
        if (length > alignment && done + length < piece.length) length -= past_cut;
        const std::uint64_t left = piece.length - done;
        if (left - length < alignment && left <= most) length = left;
        chunks.push_back({piece.local + done, piece.remote + done, static_cast<std::uint32_t>(length),
                          piece.local_region, piece.remote_region});
        done += length;
    }
}

}  // namespace

Stripes stripe(std::span<const Piece> pieces, const StripeRules& rules) {
    Stripes result;
    for (const Piece& piece : pieces)
        result.total_bytes += piece.length;
    result.striped = rules.rails > 1 && result.total_bytes > 0 && result.total_bytes >= rules.threshold;
    const std::uint64_t limit = pick_chunk_size(result.total_bytes, result.striped, rules);
    const std::uint64_t expected = pieces.size() + result.total_bytes / limit;
    if (expected > most_chunks) {
        throw Error(Status::invalid_param,
                    "transfer needs " + std::to_string(expected) +
                        " operations, at most 2^30 are carried: raise chunk_size or split it");
    }
    // A chunk size that was asked for is kept to; ours is a wish.
    const std::uint64_t most = rules.chunk_size ? limit : rules.max_chunk;
    result.chunks.reserve(expected);
    for (const Piece& piece : pieces) {
        if (piece.length) cut(piece, limit, most, result.chunks);
    }
    if (result.chunks.empty()) return result;
    result.run_length = pick_run_length(result, rules.rails);
    if (result.striped) {
        const auto fair = static_cast<std::uint32_t>((result.chunks.size() + rules.rails - 1) / rules.rails);
        result.share = std::max(fair, result.run_length);
    }
    return result;
}

}  // namespace railyard
