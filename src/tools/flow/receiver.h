// The target's side: takes grains as they come, checks and counts each, and says how it went.
#pragma once

#include "tools/flow/options.h"

namespace railyard::tools::flow {

/// Runs until the grains have come, the initiators have gone, or a stop signal; prints the result. Gives the
/// exit status. Throws Failure and UsageError.
[[nodiscard]] int run_target(const Options& options);

}  // namespace railyard::tools::flow
