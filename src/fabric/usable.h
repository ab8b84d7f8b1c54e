// Which of the devices that libfabric offers become rails.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fabric/info.h"
#include "fabric/interfaces.h"

namespace railyard::fabric {

/// What the kernel says of its network.
struct Network {
    std::vector<NetworkInterface> interfaces;  ///< empty: it does not tell
    std::string routed;                        ///< interface of the default route; empty: none
};

/// Takes out what the filter does not allow and what cannot be opened; of tcp also what is down, and all but
/// one of the interfaces where the filter names none (choose_interface). `network` is looked at for tcp
/// alone. What is down or cannot be opened has a warning.
void keep_usable(std::vector<Device>& devices, std::string_view family, const DeviceFilter& filter,
                 const Network& network);

}  // namespace railyard::fabric
