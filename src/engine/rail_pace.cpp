#include "engine/rail_pace.h"

#include <algorithm>

namespace railyard {

void RailPace::begin(std::span<const Look> looks, std::uint64_t now_ns) noexcept {
    for (std::size_t i = 0; i < rails_.size(); ++i) {
        rails_[i].carried_before = looks[i].carried;
        rails_[i].busy_looks = 0;
    }
    started_at_ = now_ns;
    looks_ = 0;
}

bool RailPace::look(std::span<const Look> looks, std::uint64_t now_ns) {
    changes_.clear();
    if (rails_.size() < 2) return false;
    if (started_at_ == 0) {
        begin(looks, now_ns);
        return false;
    }
    for (std::size_t i = 0; i < rails_.size(); ++i)
        rails_[i].busy_looks += looks[i].under_way >= busy_bytes ? 1 : 0;
    if (++looks_ < looks_in_window || now_ns == started_at_) return false;
    const double seconds = static_cast<double>(now_ns - started_at_) / 1e9;
    for (std::size_t i = 0; i < rails_.size(); ++i) {
        Watched& rail = rails_[i];
        const double busy = seconds * static_cast<double>(rail.busy_looks) / looks_in_window;
        rail.rate = rail.measured() ? static_cast<double>(looks[i].carried - rail.carried_before) / busy : 0;
    }
    for (std::size_t i = 0; i < rails_.size(); ++i) {
        Watched& rail = rails_[i];
        const double others = median_of_others(i), weight = looks[i].weight;
        if (others <= 0 || (!rail.measured() && weight >= crawling_share)) continue;
        if (!rail.measured()) rail.rate = weight * others;
        // A slow one is what the others wait for at a transfer's end, so it has work at most looks; or it is
        // known, and has little.
        const bool slow = rail.rate < crawling_share * others && 2 * rail.busy_looks >= looks_in_window;
        const bool opposite = rail.crawls ? weight >= steady_share && rail.rate >= steady_share * others
                                          : slow || weight < crawling_share;
        rail.in_a_row = opposite ? rail.in_a_row + 1 : 0;
        if (rail.in_a_row < windows) continue;
        rail.in_a_row = 0;
        rail.crawls = !rail.crawls;
        changes_.push_back({i, rail.crawls, rail.rate, others});
    }
    begin(looks, now_ns);
    return !changes_.empty();
}

/// 0: no other had enough to do.
double RailPace::median_of_others(std::size_t rail) {
    scratch_.clear();
    for (std::size_t i = 0; i < rails_.size(); ++i) {
        if (i != rail && rails_[i].measured()) scratch_.push_back(rails_[i].rate);
    }
    if (scratch_.empty()) return 0;
    const auto middle = scratch_.begin() + static_cast<std::ptrdiff_t>(scratch_.size() / 2);
    std::nth_element(scratch_.begin(), middle, scratch_.end());
    return *middle;
}

}  // namespace railyard
