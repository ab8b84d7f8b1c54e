// The clocks that grains are stamped with, and when two processes may compare their monotonic ones.
#pragma once

#include <time.h>

#include <cstdint>
#include <optional>

#include "common/boot_id.h"
#include "common/clock.h"

namespace railyard::tools::flow {

[[nodiscard]] inline std::uint64_t realtime_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

/// Until now_ns() is `when`, or a signal came.
inline void sleep_until(std::uint64_t when) noexcept {
    timespec until{};
    until.tv_sec = static_cast<time_t>(when / 1'000'000'000u);
    until.tv_nsec = static_cast<long>(when % 1'000'000'000u);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

/// A span that a user gave in seconds.
[[nodiscard]] inline std::uint64_t span_ns(double seconds) noexcept {
    return static_cast<std::uint64_t>(seconds * 1e9);
}

/// Says once a second that a second has passed.
class Ticker {
  public:
    explicit Ticker(std::uint64_t now) noexcept : next_(now + second) {}
    /// Seconds since the last tick, when it is time for one.
    [[nodiscard]] std::optional<double> tick(std::uint64_t now) noexcept {
        if (now < next_) return std::nullopt;
        const double passed = static_cast<double>(now - next_ + second) / 1e9;
        next_ = now + second;
        return passed;
    }

  private:
    static constexpr std::uint64_t second = 1'000'000'000u;
    std::uint64_t next_;
};

}  // namespace railyard::tools::flow
