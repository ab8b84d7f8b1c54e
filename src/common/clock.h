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

}  // namespace railyard
