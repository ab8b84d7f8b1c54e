// What ends a run that cannot go on: the message is for the user.
#pragma once

#include <stdexcept>

namespace railyard::bench {

struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The other side has closed the control channel; where it failed, it has said why.
struct PeerGone : Failure {
    using Failure::Failure;
};

/// The other side has said nothing, or not all of it, in its time.
struct PeerSilent : Failure {
    using Failure::Failure;
};

}  // namespace railyard::bench
