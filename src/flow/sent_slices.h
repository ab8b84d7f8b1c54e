// Which slices of a grain have been sent in its present round: the same for all targets. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace railyard::flow {

/// Both included.
struct Slices {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    bool operator==(const Slices&) const = default;
};
/// Every slice of a grain.
inline constexpr Slices whole_grain{0, UINT32_MAX};

/// Not for several threads.
class SentSlices {
  public:
    /// Some slices of the round have been sent, and not all.
    [[nodiscard]] bool unfinished() const noexcept { return unsent_ != 0; }
    /// A slice that has been sent already begins the next round, and the first one after all were.
    [[nodiscard]] bool begins_round(Slices slices) const noexcept {
        if (unsent_ == 0 || slices.last >= sent_.size()) return true;
        const auto first = sent_.begin() + slices.first, end = sent_.begin() + slices.last + 1;
        return std::find(first, end, true) != end;
    }
    /// True: they begin a round. `count`: how many there are in a grain. Throws std::bad_alloc, with nothing
    /// changed.
    bool add(Slices slices, std::uint32_t count) {
        const bool begins = begins_round(slices);
        if (slices.first == 0 && slices.last >= count - 1) {
            unsent_ = 0;
            return begins;
        }
        if (begins) {
            sent_.assign(count, false);
            unsent_ = count;
        }
        std::fill(sent_.begin() + slices.first, sent_.begin() + slices.last + 1, true);
        unsent_ -= slices.last - slices.first + 1;
        return begins;
    }

  private:
    std::uint32_t unsent_ = 0;
    std::vector<bool> sent_;  ///< by slice; empty before the first of them
};

}  // namespace railyard::flow
