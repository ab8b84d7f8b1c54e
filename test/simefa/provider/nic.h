// One simulated NIC as the process that uses it sees it.
#pragma once

#include <cstdint>
#include <memory>

#include "provider/clock.h"
#include "provider/nic_table.h"
#include "shared/cluster.h"

namespace simefa {

/// Belongs to one domain and is guarded by its lock; what it points to is shared by the whole cluster.
class Nic {
  public:
    explicit Nic(const NicDescription& description);

    [[nodiscard]] NicSlot& slot() const noexcept { return slot_; }
    [[nodiscard]] Cluster& cluster() const noexcept { return *cluster_; }
    [[nodiscard]] const NicDescription& description() const noexcept { return description_; }

    /// Takes over what was set since; cheap when nothing was.
    void refresh() noexcept {
        if (slot_.epoch.load(std::memory_order_acquire) != epoch_) reload();
    }
    [[nodiscard]] std::uint64_t get(Setting setting) const noexcept {
        return settings_[static_cast<std::size_t>(setting)];
    }
    [[nodiscard]] std::uint64_t timeout() const noexcept {
        return get(Setting::timeout) ? get(Setting::timeout) : default_timeout;
    }
    /// Whether this time the fault happens that these two settings say.
    bool strikes(Setting probability, Setting next) noexcept;
    /// Takes one of the `next` times that are left.
    bool strikes(Setting next) noexcept;
    Random& random() noexcept { return random_; }

  private:
    void reload() noexcept;

    const NicDescription& description_;
    const std::shared_ptr<Cluster> cluster_;
    NicSlot& slot_;
    std::uint32_t epoch_;
    std::uint64_t settings_[setting_count] = {};
    Random random_;
};

}  // namespace simefa
