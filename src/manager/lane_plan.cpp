#include "manager/lane_plan.h"

#include <algorithm>
#include <cstddef>

#include "common/status.h"

namespace railyard {
namespace {

/// Pieces that go together. A transfer has few groups, so they are searched in order.
struct Group {
    const RailSet* local = nullptr;
    const RailSet* remote = nullptr;
    std::vector<Piece> pieces;
};

bool same(const RailSet* a, const RailSet* b) {
    return a == b || *a == *b;
}

}  // namespace

std::vector<RailPair> pair_rails(const RailSet& local, const RailSet& remote, Pairing pairing) {
    const bool spread = pairing == Pairing::spread && local.size() < remote.size();
    std::vector<RailPair> pairs;
    pairs.reserve(local.size());
    for (std::size_t i = 0; i < local.size(); ++i) {
        const std::size_t opposite = spread ? i * remote.size() / local.size() : i % remote.size();
        pairs.push_back({local[i], remote[opposite]});
    }
    return pairs;
}

std::vector<LanePlan> plan_lanes(std::span<const Piece> pieces, std::span<const RailSet* const> locals,
                                 std::span<const RailSet* const> remotes, StripeRules rules) {
    std::vector<Group> groups;
    std::size_t last = 0;
    for (const Piece& piece : pieces) {
        if (piece.length == 0) continue;
        const RailSet* local = locals[piece.local_region];
        const RailSet* remote = remotes[piece.remote_region];
        const auto fits = [&](const Group& group) {
            return same(group.local, local) && same(group.remote, remote);
        };
        if (last >= groups.size() || !fits(groups[last])) {
            last =
                static_cast<std::size_t>(std::find_if(groups.begin(), groups.end(), fits) - groups.begin());
            if (last == groups.size()) {
                if (local->empty() || remote->empty())
                    throw Error(Status::invalid_param, "memory of the transfer is registered on no rail");
                groups.push_back({local, remote, {}});
                groups.back().pieces.reserve(pieces.size());
            }
        }
        groups[last].pieces.push_back(piece);
    }
    std::vector<LanePlan> lanes;
    for (const Group& group : groups) {
        rules.rails = group.local->size();
        lanes.push_back(
            {pair_rails(*group.local, *group.remote, rules.pairing), stripe(group.pieces, rules)});
    }
    return lanes;
}

}  // namespace railyard
