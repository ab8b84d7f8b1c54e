// What running engines do now: the difference of two looks at them.
#pragma once

#include "tools/live_view.h"

namespace railyard::tools {

/// What `after` counts beyond `before`, a second, rounded up, so that what has happened is never 0; latencies
/// are those of the time between; states are those of `after`. What begins again, or was not there before,
/// counts from 0. Throws Error{mismatch} where `before` is of another engine, or as old as `after`.
[[nodiscard]] LiveFile rates_between(const LiveFile& before, const LiveFile& after);

}  // namespace railyard::tools
