// The environment beyond the settings: variables that nothing reads, and those of libfabric that change what
// it finds.
#pragma once

#include <initializer_list>
#include <string>

namespace railyard {

/// Logs a warning for each variable RAILYARD_... that neither a setting nor a tool, script or test of ours
/// reads, with the nearest name of one that is read; once per process and name. `environment` is as
/// `environ`, with which the second one works. Any thread, as getenv.
void warn_of_unknown_variables(const char* const* environment);
void warn_of_unknown_variables();

/// "; in the environment NAME is "value"" and so on for those of `names` that are set, else nothing.
[[nodiscard]] std::string in_environment(std::initializer_list<const char*> names);

}  // namespace railyard
