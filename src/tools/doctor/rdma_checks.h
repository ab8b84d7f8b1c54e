// The checks of RDMA devices, and of what libfabric offers of them.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/diagnosis.h"

namespace railyard::tools {

/// "device": a finding for each that can be used, and one for all others that lack the same. `offers_efa`:
/// libfabric has EFAs.
[[nodiscard]] std::vector<Finding> check_rdma_devices(const HostFacts& facts, bool offers_efa);

/// "libfabric", where some EFA can be used and it offers none: the device that is the likely reason, and what
/// helps.
[[nodiscard]] Finding unoffered_finding(const HostFacts& facts);

/// What libfabric offers too little of.
enum class Wanted { anything, efas, interfaces };
/// What libfabric has been told to leave out of that, as the beginning of a remedy; empty where nothing is
/// set.
[[nodiscard]] std::string unset_first(const HostFacts& facts, Wanted wanted);

}  // namespace railyard::tools
