// The environment beyond the settings: variables that nothing reads, and those of libfabric that change what
// it finds.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace railyard {

struct UnreadVariable {
    std::string name;
    std::string guess;  ///< " (did you mean X?)", or nothing
};

/// Variables RAILYARD_... that neither a setting nor a tool, script or test of ours reads. `environment` is
/// as `environ`, with which the second one works. Any thread, as getenv.
[[nodiscard]] std::vector<UnreadVariable> unread_variables(const char* const* environment);
[[nodiscard]] std::vector<UnreadVariable> unread_variables();

/// Logs a warning for each of them, once per process and name.
void warn_of_unknown_variables(const char* const* environment);
void warn_of_unknown_variables();

/// "; in the environment NAME is "value"" and so on for those of `names` that are set, else nothing.
[[nodiscard]] std::string in_environment(std::initializer_list<const char*> names);

}  // namespace railyard
