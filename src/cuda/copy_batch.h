// What one launch of the copying kernel is given, by value: as it lies in memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace railyard::cuda {

/// Pieces that one launch may have; their number is the grid's height.
inline constexpr std::size_t pieces_per_launch = 160;

struct CopyBatch {
    std::uint64_t to[pieces_per_launch];
    std::uint64_t from[pieces_per_launch];
    std::uint32_t length[pieces_per_launch];  ///< bytes
};
static_assert(sizeof(CopyBatch) == 3200,
              "the kernel's offsets, and below the 4096 bytes that every driver takes");

}  // namespace railyard::cuda
