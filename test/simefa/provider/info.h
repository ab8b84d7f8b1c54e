// fi_info entries of the simulated NICs.
#pragma once

#include <rdma/fabric.h>

#include <cstdint>

#include "provider/nic_table.h"

namespace simefa {

enum class FabricKind { direct, rdm };

[[nodiscard]] constexpr const char* fabric_name(FabricKind kind) noexcept {
    return kind == FabricKind::direct ? "efa-direct" : "efa";
}

/// What this NIC can do on its own, control settings included.
struct DeviceRdma {
    bool read = false;
    bool write = false;
};
[[nodiscard]] DeviceRdma device_rdma(const NicDescription& nic);

/// Whether a client that asked for this API version gets device RDMA at all: from 1.18 on. A client of an
/// older libfabric cannot ask for more than that library's version, so there its newest version is enough,
/// unless SIMEFA_STRICT_API is set.
[[nodiscard]] bool device_rdma_allowed(std::uint32_t api_version) noexcept;

/// Everything that the NIC offers on this fabric, before any hints. Freed with free_info. Null: out of
/// memory.
fi_info* make_info(const NicDescription& nic, FabricKind kind, std::uint32_t api_version);
void free_info(fi_info* info) noexcept;

}  // namespace simefa
