// Which bytes of a message have arrived.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>

namespace railyard {

/// Disjoint ranges, neighbours merged: one entry while fragments come in order.
class ByteRanges {
  public:
    /// Adds [begin, end), begin < end; false, and nothing changed, when any of it was there already.
    bool add(std::uint32_t begin, std::uint32_t end) {
        auto after = ranges_.lower_bound(begin);
        if (after != ranges_.end() && after->first < end) return false;
        auto before = after == ranges_.begin() ? ranges_.end() : std::prev(after);
        if (before != ranges_.end() && before->second > begin) return false;
        const bool joins_before = before != ranges_.end() && before->second == begin;
        if (after != ranges_.end() && after->first == end) {
            end = after->second;
            ranges_.erase(after);
        }
        if (joins_before) {
            before->second = end;
        } else {
            ranges_.emplace(begin, end);
        }
        return true;
    }
    /// True when exactly [0, total) has been added.
    [[nodiscard]] bool whole(std::uint32_t total) const {
        return ranges_.size() == 1 && ranges_.begin()->first == 0 && ranges_.begin()->second == total;
    }

  private:
    std::map<std::uint32_t, std::uint32_t> ranges_;
};

}  // namespace railyard
