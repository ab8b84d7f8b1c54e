// Which rails carry which pieces of a transfer. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "manager/registration.h"
#include "manager/stripe.h"

namespace railyard {

/// One of our rails and the peer's rail that it talks to.
struct RailPair {
    std::uint16_t local = 0;
    std::uint16_t remote = 0;
    auto operator<=>(const RailPair&) const = default;
};

/// Pieces whose memory is registered on the same rails at either side.
struct LanePlan {
    std::vector<RailPair> rails;  ///< at least one
    Stripes stripes;
};

/// Each of `local` with one of `remote`, in order, and from the first one again where those are fewer. Where
/// they are more, as `pairing` says. Neither is empty.
[[nodiscard]] std::vector<RailPair> pair_rails(const RailSet& local, const RailSet& remote,
                                               Pairing pairing = Pairing::spread);

/// Groups `pieces` by the rails of their regions (`locals` and `remotes`, by region index) and cuts each
/// group into chunks. Zero-length pieces are in no lane. Throws Error{invalid_param} for a piece whose memory
/// is registered on no rail, and as stripe() does.
[[nodiscard]] std::vector<LanePlan> plan_lanes(std::span<const Piece> pieces,
                                               std::span<const RailSet* const> locals,
                                               std::span<const RailSet* const> remotes, StripeRules rules);

}  // namespace railyard
