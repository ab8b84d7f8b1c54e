// Makes a failing schedule small.
#pragma once

#include <functional>

#include "schedule.h"

namespace railyard::fault {

/// Drops steps, then transfers, and makes the rest simpler, as long as `fails` says that it fails still and
/// `may_go_on` that there is time.
[[nodiscard]] Schedule shrink(Schedule schedule, const std::function<bool(const Schedule&)>& fails,
                              const std::function<bool()>& may_go_on);

}  // namespace railyard::fault
