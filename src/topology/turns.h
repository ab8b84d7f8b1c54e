// Lists in which neighbours are to have as little in common as may be.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace railyard::topology {

/// One of each key in turn. Those of one key stay in the order in which they are, and the keys in that of
/// their first ones. Called with finer keys first, it nests: within a key, one of each finer key in turn.
template <class T, class KeyOf>
void take_in_turns(std::vector<T>& list, KeyOf key_of) {
    std::map<decltype(key_of(list.front())), std::size_t> used;
    std::vector<std::pair<std::size_t, T>> turns;
    for (T& each : list) {
        const std::size_t turn = used[key_of(each)]++;
        turns.emplace_back(turn, std::move(each));
    }
    std::stable_sort(turns.begin(), turns.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < list.size(); ++i)
        list[i] = std::move(turns[i].second);
}

}  // namespace railyard::topology
