// How a peer learns our addresses before we write to it: efa-direct refuses operations of strangers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/metadata.h"
#include "manager/lane_plan.h"

namespace railyard {

/// A rail of the sender (local) that will talk to one of the receiver's (remote).
struct IntroducedPair {
    RailPair pair;
    std::uint32_t generation = 1;  ///< of the endpoint that it sends from
    std::string sender{};          ///< that endpoint's address; empty: the rail's own. Not in a HELLO_ACK.
    bool operator==(const IntroducedPair&) const = default;
};

/// HELLO: who we are, and which of our rails will talk to which of the receiver's.
struct Introduction {
    ConnectionInfo sender;
    std::vector<IntroducedPair> pairs;
};

[[nodiscard]] std::string encode(const Introduction& introduction);
/// Throws Error{mismatch} for anything that is not whole and consistent with itself.
[[nodiscard]] Introduction decode_introduction(std::string_view bytes);

/// HELLO_ACK: the pairs of a HELLO as its sender named them, now known to the receiver.
[[nodiscard]] std::string encode_acknowledgement(std::uint64_t introduced_nonce,
                                                 const std::vector<IntroducedPair>& pairs);
struct Acknowledgement {
    std::uint64_t introduced_nonce = 0;  ///< instance that had introduced itself
    std::vector<IntroducedPair> pairs;
};
[[nodiscard]] Acknowledgement decode_acknowledgement(std::string_view bytes);

}  // namespace railyard
