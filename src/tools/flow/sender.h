// The initiator's side: fills grains, sends each at its time to every target, and says how it went.
#pragma once

#include "tools/flow/options.h"

namespace railyard::tools::flow {

/// Runs until the grains have been sent, no target is left, or a stop signal; prints the result. Gives the
/// exit status. Throws Failure and UsageError.
[[nodiscard]] int run_initiator(const Options& options);

}  // namespace railyard::tools::flow
