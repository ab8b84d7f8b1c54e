// A group of processes goes through the points together.
#pragma once

#include <vector>

#include "group/rendezvous.h"
#include "options.h"
#include "workload.h"

namespace railyard::bench {

/// The points of a group. The memory of a process is shared among its partners; processes that are forked
/// here have together what two sides would have. Throws std::invalid_argument.
[[nodiscard]] std::vector<Point> make_group_points(const Options& options);

/// Runs this process's part of all points, prints the results where it is rank 0, and leaves the group.
/// Returns the exit status; says on stderr what went wrong.
[[nodiscard]] int run_member(const Options& options, const std::vector<Point>& points,
                             Rendezvous& rendezvous);

}  // namespace railyard::bench
