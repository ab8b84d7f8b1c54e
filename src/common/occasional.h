// Which occurrences of something that repeats without end are worth a line in the log.
#pragma once

#include <bit>
#include <cstdint>

namespace railyard {

/// The 1st, 2nd, 4th, 8th... time. `count` starts at 1.
[[nodiscard]] constexpr bool worth_a_line(std::uint64_t count) noexcept {
    return std::has_single_bit(count);
}

}  // namespace railyard
