// fi_getinfo: which infos answer a client's hints, and in what shape.
#pragma once

#include <rdma/fabric.h>

#include <cstdint>

#include "provider/info.h"

namespace simefa {

/// Whether `info`, as make_info gives it, satisfies the hints; none (null) always do. Zero means "not
/// specified" in every field, `mode` and `mr_mode` included.
[[nodiscard]] bool satisfies(const fi_info& info, FabricKind kind, const fi_info* hints);

/// Narrows `info` to what the hints ask for: capabilities and memory registration bits not asked for go,
/// sizes and modes become the client's. `unsolicited`: the device needs no receive buffer for immediate data.
void narrow(fi_info& info, FabricKind kind, bool unsolicited, const fi_info* hints);

/// fi_getinfo of the provider: all efa-direct infos first, then all efa infos, in bus order. -FI_ENODATA:
/// none.
int get_info(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
             const fi_info* hints, fi_info** result);

}  // namespace simefa
