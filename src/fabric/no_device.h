// What is said where the settings `provider` and `devices` and what libfabric offers do not fit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "fabric/info.h"
#include "fabric/interfaces.h"

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

/// Logs a warning, once a process, where the rails that are `taken` are of shm or of the loopback alone
/// although the filter allows interfaces behind which peers may be, or, of shm, although there are other tcp
/// devices; but not where the filter names what is to be used. `offered`: of every fabric that was looked at.
void warn_of_staying_here(const std::vector<Device>& taken, const DeviceFilter& filter,
                          const std::vector<Offered>& offered,
                          const std::vector<NetworkInterface>& interfaces);

}  // namespace railyard::fabric
