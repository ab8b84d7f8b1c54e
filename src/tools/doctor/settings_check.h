// Whether an engine would take the environment's settings: those that are refused only where they are used,
// and those that it would go on without.
#pragma once

#include <string>
#include <vector>

#include "common/params.h"
#include "tools/doctor/diagnosis.h"

namespace railyard::tools {

/// An error for each that no engine would start with, and a warning for a `stats_file` that none could write.
/// What it finds wrong with `devices` and `topology_file` it empties, so that the survey can do without.
/// Makes nothing: no file, no socket.
[[nodiscard]] std::vector<Finding> take_out_refused(Params& params);

/// A warning for each variable RAILYARD_... that nothing reads.
[[nodiscard]] std::vector<Finding> check_variables();

/// An error where no engine would start with `oob_interface`, for rails of `family` (Survey::family).
[[nodiscard]] std::vector<Finding> check_control_interface(const std::string& interface,
                                                           const std::string& family);

}  // namespace railyard::tools
