// Copies bytes between this process and another one.
#pragma once

#include <cstddef>

#include "shared/layout.h"
#include "shared/process_identity.h"

namespace simefa {

enum class Moved { all, bad_address, no_process };

inline constexpr ProcessIdentity own_process = 0;

/// From `from` in this process to `to` in `process` (own_process: here), as many bytes as the shorter list
/// has; segment_limit entries at most on each side. A copy within the process is a memcpy and faults where
/// the memory is not there.
Moved copy_out(ProcessIdentity process, const Segment* to, std::size_t to_count, const Segment* from,
               std::size_t from_count) noexcept;
/// The other way: from `from` in `process` to `to` here.
Moved copy_in(ProcessIdentity process, const Segment* from, std::size_t from_count, const Segment* to,
              std::size_t to_count) noexcept;

}  // namespace simefa
