// Which grains of one stream have come: what is missing, and what came twice. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace railyard::tools::flow {

/// What a number is to its track.
enum class Taken {
    fresh,
    seen,      ///< taken before: its bytes had come when an earlier announcement of the place was looked at
    misplaced  ///< belongs elsewhere
};

/// Grain number s is in place s % ring. A place is used again only after its grain has been sent, so numbers
/// come out of order by less than one ring. The first number seen is the first that counts.
class SequenceTrack {
  public:
    SequenceTrack(std::uint64_t stream, std::uint32_t ring)
        : stream_(stream), next_(ring, 0), round_(ring, 0) {}

    [[nodiscard]] std::uint64_t stream() const noexcept { return stream_; }
    [[nodiscard]] std::uint64_t good() const noexcept { return good_; }

    /// True when the place's round is a later one than before, as it has to be.
    [[nodiscard]] bool take_round(std::uint64_t round, std::uint32_t place) noexcept {
        if (place >= round_.size() || round <= round_[place]) return false;
        round_[place] = round;
        return true;
    }

    /// Counts the number when it is fresh.
    [[nodiscard]] Taken take(std::uint64_t sequence, std::uint32_t place) noexcept {
        if (place >= next_.size() || sequence % next_.size() != place) return Taken::misplaced;
        if (sequence < next_[place]) return Taken::seen;
        next_[place] = sequence + 1;
        lowest_ = good_ == 0 ? sequence : std::min(lowest_, sequence);
        end_ = std::max(end_, sequence + 1);
        ++good_;
        return Taken::fresh;
    }

    /// A grain came that nobody can tell the number of.
    void take_torn() noexcept { ++torn_; }

    /// The stream has had numbers 0 to `end` - 1.
    void expect_all(std::uint64_t end) noexcept {
        lowest_ = 0;
        end_ = std::max(end_, end);
    }

    /// Numbers that have not come, and will not while the stream goes on: more than a ring has passed.
    [[nodiscard]] std::uint64_t lost() const noexcept {
        const std::uint64_t open = missing_of_last_ring();
        const std::uint64_t missing = lost_at_end();
        return missing > open ? missing - open : 0;
    }

    /// The same where nothing comes any more.
    [[nodiscard]] std::uint64_t lost_at_end() const noexcept {
        const std::uint64_t span = end_ - lowest_;
        return span > good_ + torn_ ? span - good_ - torn_ : 0;
    }

  private:
    [[nodiscard]] std::uint64_t missing_of_last_ring() const noexcept {
        std::uint64_t missing = 0;
        const std::uint64_t back = std::min<std::uint64_t>(end_ - lowest_, next_.size());
        for (std::uint64_t sequence = end_ - back; sequence < end_; ++sequence)
            missing += next_[sequence % next_.size()] != sequence + 1;
        return missing;
    }

    std::uint64_t stream_;
    std::vector<std::uint64_t> next_;   ///< of each place: one more than the number that came last
    std::vector<std::uint64_t> round_;  ///< of each place: that of the last announcement
    std::uint64_t lowest_ = 0;
    std::uint64_t end_ = 0;  ///< one more than the highest number
    std::uint64_t good_ = 0;
    std::uint64_t torn_ = 0;
};

}  // namespace railyard::tools::flow
