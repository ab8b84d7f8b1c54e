// Which of the entries that fi_getinfo answers with a `provider` setting stands for.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "fabric/info.h"

namespace railyard::fabric {

/// Entries of one provider, and fabric.
struct Choice {
    std::string_view family, provider, fabric;  ///< empty fabric: any
    fi_ep_type kind = FI_EP_RDM;
};

/// What "auto", the name of a family or an exact libfabric name may mean, best first. Views of `provider`,
/// and of what lives for ever. `after`: those behind that family alone.
[[nodiscard]] std::vector<Choice> choices_for(std::string_view provider, std::string_view after = {});

/// The entries of one choice, one per device, in libfabric's order. Throws Error{backend} where memory is
/// out.
[[nodiscard]] std::vector<Device> devices_of(const fi_info* list, const Choice& choice);

/// Those with an InfiniBand address alone where `library` (fi_version) is one whose `verbs;ofi_rxm` opens no
/// such endpoint. Each has a warning.
void leave_out_unopenable(std::vector<Device>& devices, std::uint32_t library);

/// With connections or without.
[[nodiscard]] bool is_tcp(std::string_view family) noexcept;

/// Either fabric of it.
[[nodiscard]] bool is_efa(std::string_view family) noexcept;

/// Families whose NICs read and write GPU memory themselves. The others are not asked (docs/adr/0010): cxi
/// grants FI_HMEM without FI_MR_HMEM, and would take the description of a dmabuf for an address.
[[nodiscard]] bool may_reach_gpus(std::string_view family) noexcept;

/// The device's name of an entry; empty where it has none.
[[nodiscard]] std::string device_name(const fi_info& info);

}  // namespace railyard::fabric
