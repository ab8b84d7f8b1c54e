// What a fabric rail is told when it is made.
#pragma once

#include <atomic>
#include <cstdint>

namespace railyard {

struct FabricRailConfig {
    bool blocking = false;               ///< a progress thread wants to wait for completions
    std::uint64_t give_up_after_ns = 0;  ///< a peer that takes nothing for so long is gone
    /// Grows whenever a sender is replaced or a path fails, on any rail; nullptr: nobody wants to know.
    std::atomic<std::uint32_t>* changes = nullptr;
    bool compared = true;  ///< with other rails, so that its rate is measured
};

}  // namespace railyard
