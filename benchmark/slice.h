// The timed loop: keeps a window of transfers outstanding on a driver and measures each from post to
// completion.
#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/clock.h"
#include "failure.h"
#include "histogram.h"
#include "watchdog.h"

namespace railyard::bench {

/// Empty looks at the network, one after the other, after which a polling loop lets others run. Some 0.1 ms.
inline constexpr unsigned spins_before_yield = 256;

struct SliceLimits {
    unsigned window = 1;
    std::uint64_t iterations = 0;  ///< transfers; 0: as many as fit in `seconds`
    double seconds = 0;
    std::chrono::milliseconds timeout{0};  ///< longest time without a completion
    bool timed = false;                    ///< part of the measurement, not of the verification
    bool time_posts = false;
};

struct SliceResult {
    std::uint64_t transfers = 0;
    double seconds = 0;
    Histogram latency;                 ///< ns, post to completion
    Histogram post;                    ///< ns inside post, with SliceLimits::time_posts
    std::vector<std::uint64_t> posts;  ///< of each slot
};

/// Driver: post(slot) starts a transfer; harvest() returns slots that have ended. RawFabric and AgentSide are
/// drivers.
template <class Driver>
class SliceLoop {
  public:
    SliceLoop(Driver& driver, const SliceLimits& limits, const std::string& what)
        : driver_(driver), limits_(limits), what_(what), started_(limits.window) {
        result_.posts.assign(limits.window, 0);
    }

    /// Returns when every transfer posted has ended. Throws Failure when none ends for SliceLimits::timeout.
    SliceResult run() {
        begin_ = last_ = now_ns();
        deadline_ = begin_ + static_cast<std::uint64_t>(limits_.seconds * 1e9);
        rearm(begin_);
        for (unsigned slot = 0; slot < limits_.window && more(last_); ++slot)
            start(slot, now_ns());
        while (outstanding_ > 0) {
            auto done = driver_.harvest();
            if (done.empty()) {
                if (++empty_ % spins_before_yield == 0) give_way();
                continue;
            }
            last_ = now_ns();
            empty_ = 0;
            if (last_ >= rearm_at_) rearm(last_);
            for (unsigned slot : done)
                finish(slot);
        }
        result_.seconds = static_cast<double>(last_ - begin_) / 1e9;
        return std::move(result_);
    }

  private:
    [[nodiscard]] bool more(std::uint64_t now) const {
        return limits_.iterations != 0 ? posted_ < limits_.iterations : now < deadline_;
    }

    void start(unsigned slot, std::uint64_t now) {
        started_[slot] = now;
        driver_.post(slot);
        if (limits_.time_posts) result_.post.add(now_ns() - now);
        ++result_.posts[slot];
        ++posted_;
        ++outstanding_;
    }

    void finish(unsigned slot) {
        result_.latency.add(last_ - started_[slot]);
        ++result_.transfers;
        --outstanding_;
        if (more(last_)) start(slot, limits_.time_posts ? now_ns() : last_);
    }

    /// Where more wants to run than there are cores, the other side would wait for whole time slices of this
    /// loop.
    void give_way() {
        sched_yield();
        std::uint64_t now = now_ns();
        if (now - last_ < static_cast<std::uint64_t>(limits_.timeout.count()) * 1'000'000u) return;
        throw Failure("stalled: " + what_ + ": no transfer has ended for " +
                      std::to_string(limits_.timeout.count() / 1000.0).substr(0, 5) + " s (" +
                      std::to_string(result_.transfers) + " ended before, " + std::to_string(outstanding_) +
                      " outstanding); --timeout sets the limit");
    }

    /// A call that never returns is the watchdog's: a little later than a stall that this loop sees.
    void rearm(std::uint64_t now) {
        arm_watchdog(limits_.timeout + std::chrono::seconds(5), what_.c_str());
        rearm_at_ = now + 1'000'000'000u;
    }

    Driver& driver_;
    const SliceLimits limits_;
    const std::string what_;
    std::vector<std::uint64_t> started_;
    SliceResult result_;
    std::uint64_t begin_ = 0, last_ = 0, deadline_ = 0, rearm_at_ = 0;
    std::uint64_t posted_ = 0, empty_ = 0;
    unsigned outstanding_ = 0;
};

}  // namespace railyard::bench
