// How long a destination has been answering EAGAIN without a break.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/clock.h"

namespace railyard {

/// Role holder only. Starts with the first refusal() after a reset().
class StallClock {
  public:
    void reset() noexcept { since_ns_ = 0; }
    /// Counts one more EAGAIN; true when they have gone on for `limit_ns`. `expected`: of somebody who is
    /// probably not there. Of a time in which nobody asked (the caller has no progress thread and computes,
    /// or was stopped) a quarter of the limit counts at most: what would have been taken is not known.
    [[nodiscard]] bool refusal(std::uint64_t limit_ns, bool expected = false,
                               std::uint64_t now = now_ns()) noexcept {
        if (since_ns_ == 0) since_ns_ = ask_at_ns_ = now;
        since_ns_ += beyond(now, ask_at_ns_ + limit_ns / 4);
        const std::uint64_t stalled = beyond(now, since_ns_);
        if (expected) {
            ask_at_ns_ = now + std::clamp(stalled, first_pause_ns, std::max(first_pause_ns, limit_ns / 2));
        } else {
            ask_at_ns_ = now + (stalled < unpaced_ns ? 0 : std::min(stalled / 4, longest_pause_ns));
        }
        return stalled >= limit_ns;
    }
    /// Too early to ask again, for a provider that connects anew each time it is asked (tcp, to a process
    /// that has ended): it takes longer over that than over a post, and others wait. Where refusals only say
    /// that there is no room now, asking costs nothing.
    [[nodiscard]] bool rests() const noexcept { return since_ns_ != 0 && now_ns() < ask_at_ns_; }

  private:
    static std::uint64_t beyond(std::uint64_t now, std::uint64_t moment) noexcept {
        return now > moment ? now - moment : 0;
    }

    static constexpr std::uint64_t unpaced_ns = 500'000;
    static constexpr std::uint64_t longest_pause_ns = 50'000'000;
    static constexpr std::uint64_t first_pause_ns = 1'000'000;

    std::uint64_t since_ns_ = 0;   ///< or later, by the times in which nobody asked
    std::uint64_t ask_at_ns_ = 0;  ///< not before; that of the last refusal where it need not rest
};

}  // namespace railyard
