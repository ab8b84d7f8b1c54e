// What share of striped work each rail is worth, by the rates that were measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rail/rail.h"

namespace railyard {

/// Weighs rails of one kind. A rail of unknown rate, or of about the others', has the full weight; one that
/// is found slow has less, by its rate. One caller at a time.
class RailWeights {
  public:
    /// Of the rate of the others (their median): below, a rail is slow; from there on it is not any more.
    static constexpr double slow_share = 0.75, even_share = 0.85;
    /// In a row, each with another sample, before a rail is called slow.
    static constexpr std::uint32_t looks_before_slow = 3;
    /// Without a sample of a slow one, before its rate is forgotten.
    static constexpr std::uint32_t looks_until_stale = 1000;
    /// So that a slow one gets work, and can be seen to be fast again.
    static constexpr std::uint32_t least_weight = Rail::full_weight / 32;

    explicit RailWeights(std::size_t rails = 0) : rails_(rails) { sorted_.reserve(rails); }

    /// `rates` in the rails' order. True where a rail became slow, or even with the others.
    [[gnu::cold]] bool look(std::span<const Rail::MeasuredRate> rates) noexcept;
    [[nodiscard]] std::uint32_t weight(std::size_t rail) const noexcept { return rails_[rail].weight; }
    /// Some rail has less than the full weight.
    [[nodiscard]] bool uneven() const noexcept;

  private:
    struct Weighed {
        std::uint64_t rate = 0;  ///< 0: not known, or forgotten
        std::uint32_t samples = 0;
        std::uint32_t slow_in_a_row = 0;
        std::uint32_t looks_without = 0;
        std::uint32_t weight = Rail::full_weight;
    };
    bool weigh(Weighed& rail, double share, bool fresh) noexcept;
    [[nodiscard]] double median_of_others(const Weighed& rail) const noexcept;

    std::vector<Weighed> rails_;
    std::vector<std::uint64_t> sorted_;  ///< the rates that are known
};

}  // namespace railyard
