// What the process has run out of, for the errors of libraries that do not say it.
#pragma once

#include <cstdint>
#include <string>

namespace railyard {

/// "; no file descriptor is left (limit N): raise it (`ulimit -n`)" or the like, empty when nothing is short.
/// `or_else`: what may help as well. Some microseconds.
[[nodiscard]] std::string shortage(const char* or_else = ", or open fewer rails");

/// False where the process may make no file of that length, memory with a descriptor included: whoever tries
/// gets SIGXFSZ, which ends the process, before there is an error to be told.
[[nodiscard]] bool may_grow_file_to(std::uint64_t bytes) noexcept;

}  // namespace railyard
