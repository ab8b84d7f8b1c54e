// How fast a rail carries bytes while it has enough of them.
#pragma once

#include <algorithm>
#include <cstdint>

namespace railyard {

/// Looks at a rail each time its completions have been read. Of the stretches between two looks only those
/// count in which the wire was what held the rail up, not latency or a lack of work; what else may slow a
/// stretch down is a reason to take the best of some samples. Role holder only.
class RateMeter {
  public:
    /// With the provider, so that a stretch counts: left of a burst, with nothing posted since; or at any
    /// time (what a link of 400 Gbit/s has under way in 20 us).
    static constexpr std::uint64_t burst_bytes = std::uint64_t{32} << 10;
    static constexpr std::uint64_t stream_bytes = std::uint64_t{1} << 20;
    /// A sample is so many stretches and so long together: when they are looked at moves their ends.
    static constexpr std::uint32_t stretches_in_sample = 8;
    static constexpr std::uint64_t sample_ns = 200'000;
    /// The best of as many to twice as many samples is the rate: what became slow is soon known, too.
    static constexpr std::uint32_t samples_in_window = 4;

    struct Look {
        std::uint64_t now_ns = 0;
        std::uint64_t carried = 0;    ///< bytes, ever
        std::uint64_t under_way = 0;  ///< bytes
        std::uint32_t posted = 0;     ///< operations, ever; may wrap
    };

    /// True where that ended a sample.
    bool look(const Look& now) noexcept {
        const Look before = last_;
        last_ = now;
        if (before.now_ns == 0) return false;
        if (before.under_way < stream_bytes && before.posted != now.posted) return false;
        bytes_ += now.carried - before.carried;
        busy_ns_ += now.now_ns - before.now_ns;
        if (++stretches_ < stretches_in_sample || busy_ns_ < sample_ns) return false;
        end_sample();
        return true;
    }
    /// The rail has less than burst_bytes under way: time until the next look does not count.
    void pause() noexcept { last_.now_ns = 0; }

    /// Bytes a second; 0: not known yet.
    [[nodiscard]] std::uint64_t rate() const noexcept { return std::max(best_, best_before_); }
    /// Ever; may wrap.
    [[nodiscard]] std::uint32_t samples() const noexcept { return samples_; }

  private:
    void end_sample() noexcept {
        const double rate = static_cast<double>(bytes_) * 1e9 / static_cast<double>(busy_ns_);
        best_ = std::max({best_, static_cast<std::uint64_t>(rate), std::uint64_t{1}});
        if (++samples_ % samples_in_window == 0) {
            best_before_ = best_;
            best_ = 0;
        }
        bytes_ = busy_ns_ = 0;
        stretches_ = 0;
    }

    Look last_;  ///< no stretch has begun where now_ns is 0
    std::uint64_t bytes_ = 0, busy_ns_ = 0;
    std::uint32_t stretches_ = 0, samples_ = 0;
    std::uint64_t best_ = 0, best_before_ = 0;
};

}  // namespace railyard
