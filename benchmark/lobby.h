// Where a target waits for its initiator, among strangers: port scanners, health checks, wrong addresses.
#pragma once

#include <chrono>

#include "control.h"
#include "host/metadata_exchange.h"

namespace railyard::bench {

/// The first who says what an initiator says, already greeted. Whoever says something else, hangs up or is
/// silent for two seconds is dropped, and told of on stderr. Throws Failure when nobody has come within
/// `limit` to `place`, at which the listener is.
[[nodiscard]] Control await_initiator(host::Listener& listener, const std::string& place,
                                      std::chrono::milliseconds limit);

}  // namespace railyard::bench
