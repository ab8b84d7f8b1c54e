// The NICs of the simulated host, as its hwloc picture has them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simefa {

struct NicDescription {
    std::string name;  ///< of the OpenFabrics device: rdmap79s0
    std::uint16_t pci_domain = 0;
    std::uint8_t bus = 0, device = 0, function = 0;
    std::uint16_t device_id = 0;  ///< 0xefa0 to 0xefa3: the generation
    std::uint64_t link_bits = 0;  ///< bit/s, what fi_link_attr::speed says; no limit on what is moved
    bool rdma_read = false;       ///< the device generation can
    bool rdma_write = false;
    /// The topmost PCI bridge above it, below the host bridge: 1 << 63 | domain << 24 | bus << 16 | device <<
    /// 8 | function; 0: none. Two devices have a bridge in common where they have this one.
    std::uint64_t bridge = 0;

    [[nodiscard]] std::string domain_name() const { return name + "-rdm"; }
};

/// NICs (PCI 1d0f:efa0 to efa3) of the hwloc XML file, in bus order. Empty path: none. A file that cannot be
/// read or has none gives an empty list and a line on stderr.
///
/// Link speed: the info LinkGbps of the PCI or network device; else the widest of 100, 200, 400 Gbit/s that
/// the PCI link carries; else, where the picture has no PCI speed, by generation: efa2 200, efa3 400, all
/// others 100. RDMA: efa1 and later read and write. efa0 reads when there are several (p4d), a single one
/// (c5n, p3dn) does not.
std::vector<NicDescription> read_nics(const std::string& xml_path);

/// The NICs of this process's host: read_nics of the environment's picture, once.
const std::vector<NicDescription>& nic_table();

}  // namespace simefa
