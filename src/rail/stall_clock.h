// How long a destination has been answering EAGAIN without a break.
#pragma once

#include <cstdint>

#include "common/clock.h"

namespace railyard {

/// Role holder only. Starts with the first refusal() after a reset().
class StallClock {
  public:
    void reset() noexcept { since_ns_ = 0; }
    /// Counts one more EAGAIN; true when they have gone on for `limit_ns`.
    [[nodiscard]] bool refusal(std::uint64_t limit_ns) noexcept {
        const std::uint64_t now = now_ns();
        if (since_ns_ == 0) since_ns_ = now;
        return now - since_ns_ >= limit_ns;
    }

  private:
    std::uint64_t since_ns_ = 0;
};

}  // namespace railyard
