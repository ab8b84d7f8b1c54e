// Staging buffers that peers were told of who do not say that they are through with them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/forward_rail.h"
#include "fabric/accepted_connections.h"
#include "manager/rail_manager.h"

namespace railyard {

/// A peer that has died, or whose answer is lost, never says so. A second after such a request has been given
/// up, peers are told of a GPU's buffers by other keys; once nothing that was told of the former ones may
/// still be answered, these are withdrawn, and then nobody looks for the answer of what was given up: its
/// buffers are used again. Over sockets not before what had begun is through: connections from the host of
/// such a peer are given 5 s to close or to carry enough, and those that carry next to nothing are then
/// ended, one a second. Not where keys do not keep anybody out (RailManager::withdraws_keys).
class SlotRecovery {
  public:
    explicit SlotRecovery(ForwardRail& forward) noexcept : forward_(forward) {}

    /// By whoever makes progress, not with a rail's role held.
    void look(RailManager& rails) noexcept {
        if (forward_.has_unheard() || withdrawing_.load(std::memory_order_relaxed)) [[unlikely]]
            look_when_due(rails);
    }
    /// Before the rails go, once nobody looks.
    void end(RailManager& rails) noexcept;

  private:
    struct Former {
        std::shared_ptr<Registration> lent;
        std::uint64_t withdrawn_at = 0;  ///< ns; 0: it is not
        std::uint64_t ends_one_at = 0;   ///< ns
        fabric::AcceptedConnections connections{};
    };
    [[gnu::cold]] void look_when_due(RailManager& rails) noexcept;
    void renew(RailManager& rails, std::uint64_t now);
    void withdraw(RailManager& rails, std::uint64_t now);
    void give_back(std::uint64_t now) noexcept;

    ForwardRail& forward_;
    std::atomic<std::uint64_t> next_look_{0};  ///< ns
    std::atomic<bool> looking_{false};         ///< who has set it has what follows
    std::atomic<bool> withdrawing_{false};     ///< there are some; written by who looks
    std::vector<Former> former_;
    bool told_ = false;  ///< of what keeps us from it
};

}  // namespace railyard
