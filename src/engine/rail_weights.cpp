#include "engine/rail_weights.h"

#include <algorithm>

namespace railyard {

bool RailWeights::look(std::span<const Rail::MeasuredRate> rates) noexcept {
    bool any_fresh = false;
    for (std::size_t i = 0; i < rails_.size(); ++i) {
        Weighed& rail = rails_[i];
        const bool fresh = rates[i].samples != rail.samples;
        rail.looks_without = fresh ? 0 : rail.looks_without + 1;
        any_fresh |= fresh;
        if (!fresh) continue;
        rail.samples = rates[i].samples;
        rail.rate = rates[i].bytes_per_second;
    }
    if (!any_fresh && !uneven()) return false;
    sorted_.clear();
    for (const Weighed& rail : rails_) {
        if (rail.rate > 0) sorted_.push_back(rail.rate);
    }
    if (sorted_.size() < 2) return false;
    std::sort(sorted_.begin(), sorted_.end());
    bool changed = false;
    for (Weighed& rail : rails_) {
        if (rail.rate == 0) continue;
        const double share = static_cast<double>(rail.rate) / median_of_others(rail);
        changed = weigh(rail, share, rail.looks_without == 0) || changed;
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

/// Of those that are known, the rail's own among them.
double RailWeights::median_of_others(const Weighed& rail) const noexcept {
    const std::size_t middle = (sorted_.size() - 1) / 2;
    return static_cast<double>(sorted_[rail.rate <= sorted_[middle] ? middle + 1 : middle]);
}

}  // namespace railyard
