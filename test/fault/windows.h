// When and where which fault was on, and what that explains.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "rules.h"
#include "schedule.h"

namespace railyard::fault {

/// Ticks count what happens in one run: steps, posts, ends. No clock.
using Tick = std::uint64_t;
inline constexpr Tick for_ever = UINT64_MAX;

struct Window {
    Fault fault = Fault::eagain;
    int engine = 0;
    int rail = -1;   ///< of a NIC's fault
    int other = -1;  ///< the peer of a disconnect or of another secret, the slot of a deregistration
    Tick from = 0;
    Tick to = for_ever;
};

/// What is asked about: a transfer or a message of its own.
struct Concern {
    int from = 0, to = 0;  ///< engines
    int slot = -1;         ///< of both engines; -1: no memory
    Tick prepared = 0;     ///< the handle's beginning
    Tick begun = 0, ended = 0;
    bool timed_out = false;  ///< canceled, and not before the xfer_timeout_ms of `from` were over
};

/// Not thread safe; its user has a lock.
class Windows {
  public:
    explicit Windows(const Schedule& schedule) : schedule_(schedule) {}

    void open(const Window& window);
    /// Ends the open windows at this place that fit.
    void close_nic(int engine, int rail, Tick now);
    void close(Fault fault, int engine, int other, Tick now);
    void close_all(Tick now);

    /// Whether a fault explains that it ended with an error.
    [[nodiscard]] bool explain_error(const Concern& concern) const;
    /// Whether a fault that touches it has this in its rule.
    [[nodiscard]] bool any(const Concern& concern, bool Rule::*allowance) const;
    [[nodiscard]] const std::array<std::uint64_t, fault_count>& seen() const noexcept { return seen_; }

  private:
    [[nodiscard]] bool touches(const Window& window, const Concern& concern, bool for_good) const;
    [[nodiscard]] bool needs_driving(const Concern& concern) const;
    [[nodiscard]] bool rail_hit(int engine, int rail, const Concern& concern) const;
    [[nodiscard]] bool no_path_left(const Concern& concern) const;

    const Schedule& schedule_;
    std::vector<Window> windows_;
    std::array<std::uint64_t, fault_count> seen_{};
};

}  // namespace railyard::fault
