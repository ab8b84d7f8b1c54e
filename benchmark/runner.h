// The active side: goes through the points, verifies and times each.
#pragma once

#include "control.h"
#include "options.h"
#include "report.h"

namespace railyard::bench {

/// Runs the points (or the idle check) against the target at the other end of `control`, and finishes the
/// report, with the error where the run could not go on: before anything is closed, which may take its time
/// then.
void run_initiator(const Options& options, const std::vector<Point>& points, Control control, Report& report);

}  // namespace railyard::bench
