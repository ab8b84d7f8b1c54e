// Of the slices of a run.
#pragma once

#include <algorithm>
#include <vector>

namespace railyard::bench {

/// The middle one, the upper of two. Not of an empty list.
[[nodiscard]] inline double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace railyard::bench
