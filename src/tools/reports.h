// A survey as text for people, as JSON for programs, and as a picture.
#pragma once

#include <string>

#include "tools/survey.h"

namespace railyard::tools {

/// Tables of rails, GPUs and NUMA nodes with the reason for each choice. `every_attribute`: of each rail,
/// instead of once what they have in common.
[[nodiscard]] std::string text_report(const Survey& survey, bool every_attribute);

/// {"rails":[{"name","pci","numa","gbps","provider","fabric"}], "gpus":[{"pci","numa","rails":[names]}],
/// "numa":[{"node","rails":[names]}],
/// "cuda":{"built_with","driver","absent_because","gpus":[{"ordinal","name",
/// "pci","gpu_direct_rdma","dmabuf","writes_ordering","visibility"}],"hmem_rails":[names]}}, the last not
/// offline; its gpus are the driver's, "gpus" those of the topology. PCI addresses as dddd:bb:dd.f, null
/// where there is none; numa -1 where unknown, as the kernel writes it; gbps 0 where unknown; driver and
/// absent_because null where there is none.
[[nodiscard]] std::string json_report(const Survey& survey);

/// One SVG document: packages, host bridges, switches, GPUs, NICs, and who serves whom.
[[nodiscard]] std::string picture(const Survey& survey);

}  // namespace railyard::tools
