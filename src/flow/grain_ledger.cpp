#include "flow/grain_ledger.h"

#include <algorithm>

namespace railyard::flow {

GrainLedger::GrainLedger(const GrainGeometry& geometry)
    : geometry_(geometry),
      units_(geometry.units()),
      words_((units_ + 63) / 64),
      grains_(geometry.grains()),
      arrived_(std::size_t{words_} * geometry.grains()) {}

bool GrainLedger::turn_to(Grain& grain, std::uint32_t index, std::uint32_t round) noexcept {
    const std::uint32_t span = 1u << geometry_.bits().round_bits();
    const std::uint32_t ahead = (round - static_cast<std::uint32_t>(grain.round)) & (span - 1);
    if (ahead == 0) return grain.round != 0;
    if (ahead >= span / 2) return false;
    if (grain.round != 0 && grain.missing != 0) ++lost_;
    lost_ += ahead - 1;
    grain.round += ahead;
    grain.missing = units_;
    const auto first = arrived_.begin() + static_cast<std::ptrdiff_t>(std::size_t{index} * words_);
    std::fill(first, first + words_, 0);
    return true;
}

bool GrainLedger::take(const UnitName& name) noexcept {
    if (name.index >= geometry_.grains() || name.unit >= units_) return false;
    Grain& grain = grains_[name.index];
    if (!turn_to(grain, name.index, name.round) || grain.missing == 0) return false;
    std::uint64_t& word = arrived_[std::size_t{name.index} * words_ + name.unit / 64];
    const std::uint64_t bit = std::uint64_t{1} << name.unit % 64;
    if (word & bit) return false;
    word |= bit;
    return --grain.missing == 0;
}

}  // namespace railyard::flow
