// Patterns as a predicate on pairs.
#include "group/pattern.h"

#include <algorithm>

namespace railyard::bench {

namespace {

bool moves(GroupPattern pattern, unsigned initiator, unsigned target, unsigned world) {
    if (initiator == target) return false;
    switch (pattern) {
        case GroupPattern::pairwise:
            return initiator < world / 2 && target == initiator + world / 2;
        case GroupPattern::all_to_all:
            return true;
        case GroupPattern::many_to_one:
            return target == 0;
        case GroupPattern::one_to_many:
            return initiator == 0;
    }
    return false;
}

}  // namespace

const char* to_string(GroupPattern pattern) noexcept {
    switch (pattern) {
        case GroupPattern::pairwise:
            return "pairwise";
        case GroupPattern::all_to_all:
            return "all-to-all";
        case GroupPattern::many_to_one:
            return "many-to-one";
        case GroupPattern::one_to_many:
            return "one-to-many";
    }
    return "pairwise";
}

std::vector<unsigned> targets_of(GroupPattern pattern, unsigned rank, unsigned world) {
    std::vector<unsigned> targets;
    for (unsigned step = 1; step < world; ++step) {
        const unsigned other = (rank + step) % world;
        if (moves(pattern, rank, other, world)) targets.push_back(other);
    }
    return targets;
}

std::vector<unsigned> initiators_of(GroupPattern pattern, unsigned rank, unsigned world) {
    std::vector<unsigned> initiators;
    for (unsigned other = 0; other < world; ++other) {
        if (moves(pattern, other, rank, world)) initiators.push_back(other);
    }
    return initiators;
}

unsigned most_partners(GroupPattern pattern, unsigned world) {
    std::size_t most = 0;
    for (unsigned rank = 0; rank < world; ++rank) {
        most = std::max(most,
                        targets_of(pattern, rank, world).size() + initiators_of(pattern, rank, world).size());
    }
    return static_cast<unsigned>(most);
}

}  // namespace railyard::bench
