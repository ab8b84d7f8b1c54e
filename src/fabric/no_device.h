// What is said where the settings `provider` and `devices` and what libfabric offers do not fit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "fabric/info.h"

namespace railyard::fabric {

/// What libfabric has of one kind of fabric, before `devices` and what is down take from it.
struct Offered {
    std::string_view family;
    std::vector<std::string> names;
};

/// Error{backend} that says which of the two settings is wrong, and what may stand there. `offered`: of every
/// fabric that `provider` may mean; `list`: all that libfabric has; `unoffered`: what it should have
/// (unoffered_efas), or nothing.
[[nodiscard]] Error no_device(std::string_view provider, const DeviceFilter& filter,
                              const std::vector<Offered>& offered, const fi_info* list,
                              const std::string& unoffered);

/// Logs a warning for each name of the filter that no device has; but not where an excluded one is a network
/// interface of this machine, as one list of them may serve many machines and fabrics.
void warn_of_absent(const DeviceFilter& filter, const Offered& offered);

}  // namespace railyard::fabric
