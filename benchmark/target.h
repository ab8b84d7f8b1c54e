// The passive side: owns memory, serves what it is told to serve, and checks what has arrived.
#pragma once

#include "control.h"
#include "options.h"

namespace railyard::bench {

/// Follows the initiator's requests until it says "end". Returns the exit status; says on stderr what went
/// wrong.
int run_target(const Options& options, Control control);

/// CPU time of this process (ns).
[[nodiscard]] std::uint64_t process_cpu_ns() noexcept;

}  // namespace railyard::bench
