#include "engine/rail_weights.h"

#include <algorithm>

namespace railyard {

bool RailWeights::look(std::span<const Rail::MeasuredRate> rates) {
    bool changed = false;
    if (rails_.size() < 2) return false;
    for (std::size_t i = 0; i < rails_.size(); ++i) {
        Weighed& rail = rails_[i];
        const bool fresh = rates[i].samples != rail.samples;
        rail.looks_without = fresh ? 0 : rail.looks_without + 1;
        rail.samples = rates[i].samples;
        if (fresh) rail.rate = rates[i].bytes_per_second;
    }
    for (std::size_t i = 0; i < rails_.size(); ++i) {
        Weighed& rail = rails_[i];
        const double others = median_of_others(i);
        if (rail.rate == 0 || others <= 0) continue;
        changed = weigh(rail, static_cast<double>(rail.rate) / others, rail.looks_without == 0) || changed;
    }
    return changed;
}

bool RailWeights::weigh(Weighed& rail, double share, bool fresh) noexcept {
    const bool was_slow = rail.weight < Rail::full_weight;
    if (was_slow && rail.looks_without >= looks_until_stale) {
        rail.rate = 0;
        rail.weight = Rail::full_weight;
        return true;
    }
    if (!was_slow) {
        if (fresh) rail.slow_in_a_row = share < slow_share ? rail.slow_in_a_row + 1 : 0;
        if (rail.slow_in_a_row < looks_before_slow) return false;
    }
    rail.slow_in_a_row = 0;
    rail.weight = Rail::full_weight;
    if (share < even_share) {
        const auto scaled = static_cast<std::uint32_t>(share * Rail::full_weight + 0.5);
        rail.weight = std::clamp(scaled, least_weight, Rail::full_weight - 1);
    }
    return was_slow != (rail.weight < Rail::full_weight);
}

bool RailWeights::uneven() const noexcept {
    return std::any_of(rails_.begin(), rails_.end(),
                       [](const Weighed& rail) { return rail.weight < Rail::full_weight; });
}

/// 0: none is known.
double RailWeights::median_of_others(std::size_t rail) {
    scratch_.clear();
    for (std::size_t i = 0; i < rails_.size(); ++i) {
        if (i != rail && rails_[i].rate > 0) scratch_.push_back(rails_[i].rate);
    }
    if (scratch_.empty()) return 0;
    const auto middle = scratch_.begin() + static_cast<std::ptrdiff_t>(scratch_.size() / 2);
    std::nth_element(scratch_.begin(), middle, scratch_.end());
    return static_cast<double>(*middle);
}

}  // namespace railyard
