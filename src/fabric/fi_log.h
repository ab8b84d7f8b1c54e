// libfabric's own log lines, routed into ours.
#pragma once

namespace railyard::fabric {

/// Hands libfabric our log for the rest of the process; later calls do nothing. Logs a warning where the
/// library refuses.
void route_libfabric_log();

}  // namespace railyard::fabric
