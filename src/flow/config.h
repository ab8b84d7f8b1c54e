// What applications hand in, looked at and turned into ours, and what they are told.
#pragma once

#include <vector>

#include "flow/side.h"
#include "flow/target_report.h"
#include "railyard/flow.h"

namespace railyard::flow {

/// Throws Refusal.
[[nodiscard]] std::vector<Region> to_regions(const ryf_region* regions, std::size_t count);
/// `regions` are those that `config` names. Throws Refusal.
[[nodiscard]] SideConfig to_side_config(const ryf_config& config, const std::vector<Region>& regions);
/// The other way round; texts are cut off where they are too long.
[[nodiscard]] ryf_target_report to_report(const TargetReport& report) noexcept;
/// What there is of `provider`; NoFabric where there is nothing. Throws Refusal, Error.
[[nodiscard]] std::vector<ryf_interface> list_interfaces(ryf_provider provider);

}  // namespace railyard::flow
