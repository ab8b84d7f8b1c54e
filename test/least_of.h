// What has to be little, on a machine that may be busy.
#pragma once

#include <algorithm>

namespace railyard::test {

/// The least of what `attempt` returns, most often a time, in up to `tries`; of no more than it takes to get
/// below `enough`. A busy machine only ever adds to it, and what is too much by itself is so each time.
template <class Figure, class Attempt>
auto least_of(Figure enough, Attempt&& attempt, int tries = 3) {
    auto least = attempt();
    for (int i = 1; i < tries && least >= enough; ++i)
        least = std::min(least, attempt());
    return least;
}

}  // namespace railyard::test
