// fid_nic of an fi_info: what the NIC says about itself.
#pragma once

#include <rdma/fabric.h>

#include <string>

#include "provider/nic_table.h"

namespace simefa {

/// Text form of the address that a NIC's gid stands for: fe80::...
[[nodiscard]] std::string gid_text(const std::uint8_t (&gid)[16]);

/// Closed by fi_close, copied by fi_control(FI_DUP). Null: out of memory.
fid_nic* make_nic(const NicDescription& nic, bool link_up);

/// The gid of this NIC of this host: the same in every process of the cluster.
void fill_gid(std::uint8_t (&gid)[16], const std::string& host, const std::string& nic) noexcept;

}  // namespace simefa
