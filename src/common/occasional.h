// Which occurrences of something that repeats without end are worth a line in the log.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <string_view>

namespace railyard {

/// The 1st, 2nd, 4th, 8th... time. `count` starts at 1.
[[nodiscard]] constexpr bool worth_a_line(std::uint64_t count) noexcept {
    return std::has_single_bit(count);
}

/// What was said last of something that each engine of a process finds, and has the same to say of. Any
/// thread.
class LastSaid {
  public:
    /// It is another text; it is said now.
    [[nodiscard]] bool is_news(std::string_view text) noexcept {
        const std::size_t hash = std::hash<std::string_view>()(text);
        return hash_.exchange(hash, std::memory_order_relaxed) != hash;
    }

  private:
    std::atomic<std::size_t> hash_{0};
};

}  // namespace railyard
