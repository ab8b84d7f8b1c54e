// EFAs that the kernel has and libfabric offers none of: what is then said, as "auto" takes tcp without them.
#pragma once

#include <rdma/fabric.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "fabric/info.h"

namespace railyard::fabric {

/// Names those below `rdma_devices` that the filter allows, and the usual causes; empty where there is none,
/// or where `list`, all that libfabric has, has some.
[[nodiscard]] std::string unoffered_efas(const DeviceFilter& filter, const fi_info* list,
                                         const std::filesystem::path& rdma_devices);

/// Logs that as a warning of "auto", which takes `family`; nothing where there is nothing to say.
void warn_of_unoffered_efas(std::string_view family, const DeviceFilter& filter, const fi_info* list,
                            const std::filesystem::path& rdma_devices);

}  // namespace railyard::fabric
