// Statistics files of processes that were killed: which ones are, and taking them away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace railyard {

/// The first line of a file that its writer holds a lock on (flock) until it ends, however it does: by then
/// the kernel has let the lock go, for processes of any container of this host. It names the kernel and its
/// start, as nobody else's locks can be seen. Empty where the kernel does not tell. Reads /proc.
[[nodiscard]] std::string lock_line();

/// Takes away the files beside `path`, an engine's own, that engines with the same `pattern` (StatsFile) have
/// left: reports of our user's with a lock_line() of this kernel, and no lock, whose name is the one that
/// `pattern` makes for their agent, instance and process. All others stay: a lock is all that tells the
/// living from the dead where process numbers are those of other containers. Returns how many went. Blocks
/// for as long as it takes to list the directory, and to read those files.
std::size_t remove_leftovers(const std::string& pattern, const std::string& path);

}  // namespace railyard
