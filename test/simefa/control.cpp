#include "control.h"

#include <fnmatch.h>

namespace simefa {

std::vector<NicState> Control::list(const NicPattern& which) const {
    std::vector<NicState> found;
    for (const NicSlot& slot : cluster_->table().slots) {
        if (!slot.used.load()) break;
        if (fnmatch(which.host.c_str(), slot.host, 0) != 0 || fnmatch(which.nic.c_str(), slot.nic, 0) != 0)
            continue;
        NicState state{slot.host, slot.nic, {}, {}};
        for (const SettingInfo& info : setting_table()) {
            if (const std::uint64_t value = slot.get(info.setting))
                state.settings[std::string(info.name)] = static_cast<double>(value) / info.scale;
        }
        for (std::size_t i = 0; i < counter_count; ++i) {
            state.counters[std::string(counter_name(static_cast<Counter>(i)))] =
                slot.counters[i].load(std::memory_order_relaxed);
        }
        found.push_back(std::move(state));
    }
    return found;
}

std::uint64_t Control::counter(std::string_view name, const NicPattern& which) const {
    std::uint64_t sum = 0;
    for (const NicState& state : list(which))
        sum += state.counters.at(std::string(name));
    return sum;
}

}  // namespace simefa
