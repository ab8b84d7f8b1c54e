// Monotonic time in nanoseconds, for limits and measurements.
#pragma once

#include <time.h>

#include <cstdint>

namespace railyard {

[[nodiscard]] inline std::uint64_t now_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

/// Some milliseconds behind now_ns(), and a fraction of its price: for what need not be exact.
[[nodiscard]] inline std::uint64_t coarse_now_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace railyard
