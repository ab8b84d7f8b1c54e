// Reads a machine with hwloc: the one that the process runs on, or one from an XML file.
#pragma once

#include <string>

#include "topology/machine.h"

namespace railyard::topology {

/// `xml_path` empty: this machine, or the file that HWLOC_XMLFILE names (hwloc looks at that itself, and
/// reads the machine instead when it cannot open the file, of which this warns). Blocks for as long as hwloc
/// takes to read /sys. Throws Error{invalid_param} naming a file that cannot be read, and Error{backend} when
/// hwloc fails on the machine.
///
/// NICs are network and InfiniBand controllers; EFAs are those with PCI id 1d0f:efa*. GPUs are NVIDIA's
/// display and 3D controllers, and whatever else has an OpenCL or CUDA device under it.
[[nodiscard]] Machine read_machine(const std::string& xml_path = {});

}  // namespace railyard::topology
