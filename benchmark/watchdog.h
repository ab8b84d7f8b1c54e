// Ends the process when a call does not come back, whatever it is stuck in. One timer for the process.
#pragma once

#include <chrono>
#include <string>

namespace railyard::bench {

/// From now on `limit` may pass before the next arm or disarm; else the process says that `what` is stuck and
/// ends, with status 1. Replaces the limit before. `what` is copied, cut at 200 characters. Main
/// thread, or any one thread while the others leave it alone.
void arm_watchdog(std::chrono::milliseconds limit, const char* what) noexcept;
void disarm_watchdog() noexcept;

/// From now on it writes this there, too, before the process ends: `head`, a JSON object that has not ended,
/// its member "error", and the object's end. Empty: nothing. As arm_watchdog(), by that thread.
void set_last_document(int descriptor, std::string head);

}  // namespace railyard::bench
