// The immediate data of flows: 32 bits that name one unit of a grain. From the top: source, round, index,
// unit.
#pragma once

#include <bit>
#include <cstdint>

namespace railyard::flow {

inline constexpr unsigned source_bits = 4;
inline constexpr std::uint32_t most_sources = 1u << source_bits;
/// Rounds are told apart by so many bits at least, so that what comes late is known as such.
inline constexpr unsigned least_round_bits = 8;
inline constexpr unsigned most_name_bits = 32 - source_bits - least_round_bits;

/// One unit of one grain, as it travels.
struct UnitName {
    std::uint32_t source = 0;
    std::uint32_t round = 0;  ///< its lowest bits
    std::uint32_t index = 0;
    std::uint32_t unit = 0;
    bool operator==(const UnitName&) const = default;
};

/// How the bits below the source are shared out; both sides work it out from the same numbers.
class NameBits {
  public:
    NameBits() = default;
    /// For so many grains of so many units; fits() says whether there is room for them.
    constexpr NameBits(std::uint32_t grains, std::uint32_t units) noexcept
        : index_(bits_for(grains)), unit_(bits_for(units)) {}

    [[nodiscard]] constexpr bool fits() const noexcept { return index_ + unit_ <= most_name_bits; }
    [[nodiscard]] constexpr unsigned round_bits() const noexcept { return 32 - source_bits - index_ - unit_; }

    /// Adding to the unit is adding to the result.
    [[nodiscard]] constexpr std::uint32_t pack(const UnitName& name) const noexcept {
        std::uint32_t packed = name.source & mask(source_bits);
        packed = packed << round_bits() | (name.round & mask(round_bits()));
        packed = packed << index_ | (name.index & mask(index_));
        return packed << unit_ | (name.unit & mask(unit_));
    }
    [[nodiscard]] constexpr UnitName unpack(std::uint32_t packed) const noexcept {
        return {source_of(packed), packed >> (index_ + unit_) & mask(round_bits()),
                packed >> unit_ & mask(index_), packed & mask(unit_)};
    }
    /// Where it stands does not depend on the other bits.
    [[nodiscard]] static constexpr std::uint32_t source_of(std::uint32_t packed) noexcept {
        return packed >> (32 - source_bits);
    }

    /// What numbers below `count` take.
    static constexpr unsigned bits_for(std::uint32_t count) noexcept {
        return count < 2 ? 0 : static_cast<unsigned>(std::bit_width(count - 1));
    }

  private:
    static constexpr std::uint32_t mask(unsigned bits) noexcept {
        return static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1);
    }

    unsigned index_ = 0;
    unsigned unit_ = 0;
};

}  // namespace railyard::flow
