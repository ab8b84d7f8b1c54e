// Control of a simulated cluster from outside: what simefactl and tests use.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/cluster.h"

namespace simefa {

struct NicState {
    std::string host, nic;
    std::map<std::string, double> settings;         ///< those that are set, in the units of simefactl
    std::map<std::string, std::uint64_t> counters;  ///< all, by counter_name
};

/// Attached to one cluster as long as it lives; settings made here hold for NICs that are opened later, too.
/// A cluster that nobody is attached to is removed with them, unless it is kept. Any thread; throws
/// std::exception's children.
class Control {
  public:
    explicit Control(const std::string& name = cluster_name()) : cluster_(Cluster::attach(name)) {}

    /// KEY=VALUE as in docs/simulated-efa.md.
    void set(std::string_view key_value, const NicPattern& which = {}) { cluster_->set(which, key_value); }
    void reset(const NicPattern& which = {}) { cluster_->reset(which); }
    [[nodiscard]] std::vector<NicState> list(const NicPattern& which = {}) const;
    /// Sum over the NICs that match.
    [[nodiscard]] std::uint64_t counter(std::string_view name, const NicPattern& which = {}) const;
    /// Number of files of dead processes that were removed.
    std::size_t sweep() { return cluster_->sweep(); }
    void keep() { cluster_->keep(); }
    void keep_no_longer() noexcept { cluster_->keep_no_longer(); }
    [[nodiscard]] const std::string& directory() const noexcept { return cluster_->directory(); }

  private:
    std::shared_ptr<Cluster> cluster_;
};

}  // namespace simefa
