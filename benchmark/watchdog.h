// Ends the process when a call does not come back, whatever it is stuck in. One timer for the process.
#pragma once

#include <chrono>

namespace railyard::bench {

/// From now on `limit` may pass before the next arm or disarm; else the process says that `what` is stuck and
/// ends, with another status than 0. Replaces the limit before. `what` is copied, cut at 200 characters. Main
/// thread, or any one thread while the others leave it alone.
void arm_watchdog(std::chrono::milliseconds limit, const char* what) noexcept;
void disarm_watchdog() noexcept;

}  // namespace railyard::bench
