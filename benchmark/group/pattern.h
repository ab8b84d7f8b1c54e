// Who moves data with whom, in a group of processes.
#pragma once

#include <vector>

namespace railyard::bench {

/// The one that moves is the initiator: a WRITE goes from it to its target, a READ comes from there.
enum class GroupPattern {
    pairwise,     ///< rank i of the lower half with i + half of the world
    all_to_all,   ///< everybody with everybody else
    many_to_one,  ///< everybody else with rank 0
    one_to_many   ///< rank 0 with everybody else
};

[[nodiscard]] const char* to_string(GroupPattern pattern) noexcept;

/// Targets of `rank`, beginning with the next higher rank, so that not all begin with the same one.
[[nodiscard]] std::vector<unsigned> targets_of(GroupPattern pattern, unsigned rank, unsigned world);
/// Initiators whose target `rank` is, in order.
[[nodiscard]] std::vector<unsigned> initiators_of(GroupPattern pattern, unsigned rank, unsigned world);
/// Most initiators and targets that one rank has.
[[nodiscard]] unsigned most_partners(GroupPattern pattern, unsigned world);

}  // namespace railyard::bench
