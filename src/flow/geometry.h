// How a grain is cut: into equal slices, which are sent by themselves, and these into units, which are
// written in one operation each. Pure.
#pragma once

#include <cstdint>

#include "flow/immediate.h"

namespace railyard::flow {

inline constexpr std::uint32_t most_grains = 16384;
inline constexpr std::uint32_t most_slices = 4096;
inline constexpr std::uint32_t most_units = 4096;  ///< of one grain

struct Span {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
};

/// Every slice but the last has the same length, every unit of a slice but the last one, too.
class GrainGeometry {
  public:
    GrainGeometry() = default;
    /// Throws Error{invalid_param}: zero, past the limits above, more slices than leave each a byte, or more
    /// units than the immediate data has room for.
    GrainGeometry(std::uint32_t grains, std::uint64_t length, std::uint32_t slices, std::uint64_t unit);
    /// With units of `wanted` bytes, or longer ones where these would be too many.
    static GrainGeometry choose(std::uint32_t grains, std::uint64_t length, std::uint32_t slices,
                                std::uint64_t wanted);

    [[nodiscard]] std::uint32_t grains() const noexcept { return grains_; }
    [[nodiscard]] std::uint64_t length() const noexcept { return length_; }
    [[nodiscard]] std::uint32_t slices() const noexcept { return slices_; }
    [[nodiscard]] std::uint64_t unit_length() const noexcept { return unit_; }
    [[nodiscard]] const NameBits& bits() const noexcept { return bits_; }

    /// Of the whole grain.
    [[nodiscard]] std::uint32_t units() const noexcept {
        return first_unit(slices_ - 1) + units_of(slices_ - 1);
    }
    [[nodiscard]] std::uint32_t first_unit(std::uint32_t slice) const noexcept { return slice * a_slice_; }
    [[nodiscard]] std::uint32_t units_of(std::uint32_t slice) const noexcept {
        return static_cast<std::uint32_t>((slice_at(slice).length + unit_ - 1) / unit_);
    }
    /// One past the last unit of `slice`.
    [[nodiscard]] std::uint32_t end_unit(std::uint32_t slice) const noexcept {
        return first_unit(slice) + units_of(slice);
    }
    [[nodiscard]] Span slice_at(std::uint32_t slice) const noexcept;
    [[nodiscard]] Span unit_at(std::uint32_t unit) const noexcept;

  private:
    std::uint32_t grains_ = 0;
    std::uint32_t slices_ = 0;
    std::uint64_t length_ = 0;
    std::uint64_t slice_length_ = 0;
    std::uint64_t unit_ = 0;
    std::uint32_t a_slice_ = 0;  ///< units of a whole slice
    NameBits bits_;
};

}  // namespace railyard::flow
