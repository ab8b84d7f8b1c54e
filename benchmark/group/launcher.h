// A whole group on this host.
#pragma once

#include "options.h"

namespace railyard::bench {

/// Joins the group that the options name, or forks one on this host; returns the exit status. Before any
/// thread exists and libfabric is touched. Throws Failure, and std::invalid_argument for sizes that do not
/// fit.
[[nodiscard]] int run_group(const Options& options);

}  // namespace railyard::bench
