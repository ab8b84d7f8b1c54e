// The passive side: owns memory, serves what it is told to serve, and checks what has arrived.
#pragma once

#include "control.h"
#include "options.h"

namespace railyard::bench {

/// The first request: what the target opens. Side by side with the reader of it, so that they change
/// together.
[[nodiscard]] Message open_request(const Options& options, std::uint64_t memory);

/// Follows the initiator's requests until it says "end". Returns the exit status; says on stderr what went
/// wrong.
int run_target(const Options& options, Control control);

/// CPU time of this process (ns).
[[nodiscard]] std::uint64_t process_cpu_ns() noexcept;

}  // namespace railyard::bench
