#include "topology/machine.h"

#include <algorithm>

namespace railyard::topology {

const NicDesc* nic_at(const Machine& machine, const std::optional<PciAddress>& pci) noexcept {
    const auto nic = std::find_if(machine.nics.begin(), machine.nics.end(),
                                  [&](const NicDesc& known) { return known.pci == pci; });
    return nic == machine.nics.end() ? nullptr : &*nic;
}

double rate_of_link(double link) noexcept {
    double best = 0;
    for (const double rate : {1.0, 10.0, 25.0, 40.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1600.0}) {
        if (rate <= link * 8) best = rate;
    }
    return best;
}

}  // namespace railyard::topology
