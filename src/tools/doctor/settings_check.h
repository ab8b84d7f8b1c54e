// Whether an engine would take the environment's settings: those that are refused only where they are used.
#pragma once

#include <string>
#include <vector>

#include "common/params.h"
#include "tools/doctor/diagnosis.h"

namespace railyard::tools {

/// An error for each that no engine would start with. What it finds wrong with `devices` and `topology_file`
/// it empties, so that the survey can do without. Makes nothing: no file, no socket.
[[nodiscard]] std::vector<Finding> take_out_refused(Params& params);

/// The same of `oob_interface`, for rails of `family` (Survey::family).
[[nodiscard]] std::vector<Finding> check_control_interface(const std::string& interface,
                                                           const std::string& family);

}  // namespace railyard::tools
