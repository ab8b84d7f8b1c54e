// Of the slices of a run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace railyard::bench {

/// The middle one, of two their mean. Not of an empty list.
[[nodiscard]] inline double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    if (values.size() % 2 == 1) return *middle;
    return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

/// Slice by slice, so that what the machine does meanwhile both have met: of some / (others * times). As many
/// of either, and not none.
[[nodiscard]] inline double median_ratio(const std::vector<double>& some, const std::vector<double>& others,
                                         double times = 1) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < some.size(); ++i)
        ratios.push_back(some[i] / (others[i] * times));
    return median(ratios);
}

}  // namespace railyard::bench
