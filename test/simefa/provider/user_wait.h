// For who takes memory away: how long to wait for the peer that is just reaching into it.
#pragma once

#include <sched.h>

#include "provider/clock.h"
#include "shared/process_identity.h"

namespace simefa {

/// One for each thing that is waited for. A running peer is through in microseconds. One that has died never
/// is, nor one that a signal stopped there: no device would notice that, so it is not waited for either. What
/// it does first when it goes on again may land late.
class UserWait {
  public:
    /// Lets others run. False: `user` is not worth waiting for any more.
    [[nodiscard]] bool go_on(ProcessIdentity user) noexcept {
        sched_yield();
        if (++turns_ % turns_between_looks != 0) return true;
        if (!is_alive(user)) return false;
        const std::uint64_t now = now_ns();
        if (!is_stopped(user) || stopped_at_ == 0) stopped_at_ = now;
        return now - stopped_at_ < longest_stop;
    }

  private:
    static constexpr unsigned turns_between_looks = 1024;
    static constexpr std::uint64_t longest_stop = 50'000'000;  // ns; its threads stop one after the other

    unsigned turns_ = 0;
    std::uint64_t stopped_at_ = 0;  ///< not before
};

}  // namespace simefa
