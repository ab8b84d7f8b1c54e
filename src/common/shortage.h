// What the process has run out of, for the errors of libraries that do not say it.
#pragma once

#include <string>

namespace railyard {

/// "; no file descriptor is left (limit N): raise it (`ulimit -n`)" or the like, empty when nothing is short.
/// `or_else`: what may help as well. Some microseconds.
[[nodiscard]] std::string shortage(const char* or_else = ", or open fewer rails");

}  // namespace railyard
