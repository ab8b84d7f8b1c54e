// Latencies in log-linear buckets: a percentile is within 0.4 %, the maximum exact; adding allocates nothing.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace railyard::tools::flow {

/// Takes nanoseconds, answers in microseconds. One thread at a time.
class Latency {
  public:
    void add(std::uint64_t ns) noexcept {
        ++buckets_[bucket_of(ns)];
        ++count_;
        max_ = std::max(max_, ns);
    }

    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
    [[nodiscard]] double max_us() const noexcept { return static_cast<double>(max_) / 1e3; }

    /// What `fraction` (0..1) of the values do not exceed; 0 when there are none.
    [[nodiscard]] double percentile_us(double fraction) const noexcept {
        const auto rank = static_cast<std::uint64_t>(std::ceil(fraction * static_cast<double>(count_)));
        std::uint64_t seen = 0;
        for (std::size_t i = 0; i < buckets_.size() && count_ > 0; ++i) {
            seen += buckets_[i];
            if (seen >= std::max<std::uint64_t>(rank, 1)) return std::min(middle_us(i), max_us());
        }
        return max_us();
    }

  private:
    static constexpr std::size_t steps = 128;    ///< buckets of a power of two
    static constexpr unsigned shift_limit = 40;  ///< the last power of two ends at 78 hours

    /// Values up to 2 * steps have a bucket each; above, those that agree in their first eight bits share
    /// one.
    static std::size_t bucket_of(std::uint64_t ns) noexcept {
        const auto width = static_cast<unsigned>(std::bit_width(ns));
        const unsigned shift = width > 8 ? width - 8 : 0;
        return shift > shift_limit ? bucket_count - 1 : shift * steps + static_cast<std::size_t>(ns >> shift);
    }

    static double middle_us(std::size_t bucket) noexcept {
        const std::size_t shift = bucket < 2 * steps ? 0 : bucket / steps - 1;
        const std::uint64_t low = static_cast<std::uint64_t>(bucket - shift * steps) << shift;
        return (static_cast<double>(low) + static_cast<double>((std::uint64_t{1} << shift) - 1) / 2) / 1e3;
    }

    static constexpr std::size_t bucket_count = (shift_limit + 2) * steps;
    std::array<std::uint64_t, bucket_count> buckets_{};
    std::uint64_t count_ = 0;
    std::uint64_t max_ = 0;
};

}  // namespace railyard::tools::flow
