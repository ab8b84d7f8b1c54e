// Latency histogram: log-linear buckets, so that a percentile is within 1 % however long the run; no
// allocation to add.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace railyard::bench {

/// Values in nanoseconds. One thread at a time.
class Histogram {
  public:
    void add(std::uint64_t value) noexcept {
        ++buckets_[bucket_of(value)];
        ++count_;
    }

    void merge(const Histogram& other) noexcept {
        for (std::size_t i = 0; i < buckets_.size(); ++i)
            buckets_[i] += other.buckets_[i];
        count_ += other.count_;
    }

    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

    /// Calls `take(bucket, count)` for each bucket that is not empty: what another process builds the same
    /// histogram from.
    template <class Take>
    void each_bucket(Take take) const {
        for (std::size_t i = 0; i < buckets_.size(); ++i) {
            if (buckets_[i] != 0) take(i, buckets_[i]);
        }
    }

    /// False where there is no such bucket.
    [[nodiscard]] bool add_bucket(std::size_t bucket, std::uint64_t count) noexcept {
        if (bucket >= buckets_.size()) return false;
        buckets_[bucket] += count;
        count_ += count;
        return true;
    }

    /// The value that `fraction` (0..1) of all values do not exceed, as the middle of its bucket; 0 when
    /// empty.
    [[nodiscard]] double percentile(double fraction) const noexcept {
        if (count_ == 0) return 0;
        auto rank = static_cast<std::uint64_t>(std::ceil(fraction * static_cast<double>(count_)));
        if (rank == 0) rank = 1;
        std::uint64_t seen = 0;
        for (std::size_t i = 0; i < buckets_.size(); ++i) {
            seen += buckets_[i];
            if (seen >= rank) return middle_of(i);
        }
        return middle_of(buckets_.size() - 1);
    }

  private:
    static constexpr unsigned sub_bits = 7;  ///< 128 steps per power of two: 0.8 % wide
    static constexpr std::size_t steps = std::size_t{1} << sub_bits;
    static constexpr unsigned top_bits = 44;  ///< the last bucket begins near 4.8 hours

    static std::size_t bucket_of(std::uint64_t value) noexcept {
        if (value < steps) return static_cast<std::size_t>(value);
        auto width = static_cast<unsigned>(std::bit_width(value));
        if (width > top_bits) return bucket_count - 1;
        unsigned shift = width - 1 - sub_bits;
        return (static_cast<std::size_t>(shift) + 1) * steps +
               static_cast<std::size_t>((value >> shift) - steps);
    }

    static double middle_of(std::size_t bucket) noexcept {
        if (bucket < steps) return static_cast<double>(bucket);
        auto shift = static_cast<unsigned>(bucket / steps - 1);
        std::uint64_t low = (steps + bucket % steps) << shift;
        return static_cast<double>(low) + static_cast<double>((std::uint64_t{1} << shift) - 1) / 2;
    }

    static constexpr std::size_t bucket_count = (top_bits - sub_bits + 1) * steps;
    std::array<std::uint64_t, bucket_count> buckets_{};
    std::uint64_t count_ = 0;
};

}  // namespace railyard::bench
