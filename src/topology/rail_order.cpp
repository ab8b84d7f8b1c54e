#include "topology/rail_order.h"

#include <numeric>
#include <set>

#include "topology/distance.h"
#include "topology/turns.h"

namespace railyard::topology {
namespace {

/// A device that the topology knows.
struct Candidate {
    std::size_t device;
    const NicDesc* nic;
    std::size_t share;  ///< the first GPU whose NIC it is; of no GPU's, a number of its own
    int rank;           ///< lower ones first
};

class Preference {
  public:
    Preference(const Machine& machine, std::span<const RailDesc> devices, std::span<const GpuDesc> visible)
        : machine_(machine), map_(select_rails(machine, devices)) {
        see(visible);
        for (std::size_t i = 0; i < devices.size(); ++i) {
            if (const NicDesc* nic = nic_at(machine_, devices[i].pci)) {
                candidates_.push_back({i, nic, share_of(i), rank_of(i, *nic)});
            } else {
                unknown_.push_back(i);
            }
        }
    }

    std::vector<std::size_t> order() {
        std::stable_sort(candidates_.begin(), candidates_.end(),
                         [](const Candidate& a, const Candidate& b) { return a.nic->pci < b.nic->pci; });
        take_in_turns(candidates_, [](const Candidate& c) { return c.nic; });  // that has several ports
        take_in_turns(candidates_, [](const Candidate& c) { return c.share; });
        take_in_turns(candidates_,
                      [&](const Candidate& c) { return host_bridge_of(machine_, c.nic->parent); });
        take_in_turns(candidates_, [](const Candidate& c) { return c.nic->numa; });
        std::stable_sort(candidates_.begin(), candidates_.end(),
                         [](const Candidate& a, const Candidate& b) { return a.rank < b.rank; });
        std::vector<std::size_t> devices;
        for (const Candidate& candidate : candidates_)
            devices.push_back(candidate.device);
        devices.insert(devices.end(), unknown_.begin(), unknown_.end());
        return devices;
    }

  private:
    /// All of them, or none that the topology knows, prefer nothing.
    void see(std::span<const GpuDesc> visible) {
        for (const GpuDesc& gpu : visible) {
            if (gpu.ordinal >= 0) seen_.insert(static_cast<std::size_t>(gpu.ordinal));
        }
        if (seen_.size() == machine_.gpus.size()) seen_.clear();
        for (const std::size_t gpu : seen_) {
            if (machine_.gpus[gpu].numa != unknown_numa) nodes_.insert(machine_.gpus[gpu].numa);
        }
    }

    bool serves(std::size_t gpu, std::size_t device) const {
        const std::vector<std::size_t>& rails = map_.by_gpu[gpu];
        return std::binary_search(rails.begin(), rails.end(), device);
    }

    std::size_t share_of(std::size_t device) const {
        for (std::size_t gpu = 0; gpu < map_.by_gpu.size(); ++gpu) {
            if (serves(gpu, device)) return gpu;
        }
        return map_.by_gpu.size() + device;
    }

    int rank_of(std::size_t device, const NicDesc& nic) const {
        if (std::any_of(seen_.begin(), seen_.end(), [&](std::size_t gpu) { return serves(gpu, device); }))
            return 0;
        return nodes_.contains(nic.numa) ? 1 : 2;
    }

    const Machine& machine_;
    const RailMap map_;
    std::set<std::size_t> seen_;  // GPUs
    std::set<int> nodes_;         // theirs
    std::vector<Candidate> candidates_;
    std::vector<std::size_t> unknown_;
};

}  // namespace

std::vector<std::size_t> rail_order(const Machine& machine, std::span<const RailDesc> devices,
                                    const RailLimits& limits, std::span<const GpuDesc> visible) {
    std::vector<std::size_t> round(devices.size());
    std::iota(round.begin(), round.end(), std::size_t{0});
    if (limits.leave_a_choice(devices.size())) {
        round = Preference(machine, devices, visible).order();
        std::sort(round.begin(),
                  round.begin() + static_cast<std::ptrdiff_t>(limits.preferred(devices.size())));
    }
    std::vector<std::size_t> order;
    for (std::uint64_t i = 0; i < limits.on_each; ++i)
        order.insert(order.end(), round.begin(), round.end());
    return order;
}

}  // namespace railyard::topology
