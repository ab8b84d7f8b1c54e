// How long things took, in a few fixed buckets that many threads may count in.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace railyard {

/// What a histogram held at some moment. Nanoseconds.
struct LatencyCounts {
    /// Bucket i holds what took at most `limit_ns(i)` and more than the one before; the last, anything
    /// longer.
    static constexpr std::size_t buckets = 25;
    static constexpr unsigned first_bits =
        10;  ///< 1.024 us; each bucket is twice the one before, up to 8.6 s
    static constexpr std::uint64_t limit_ns(std::size_t bucket) noexcept {
        return std::uint64_t{1} << (first_bits + bucket);
    }

    std::array<std::uint64_t, buckets> counts{};
    std::uint64_t sum_ns = 0;

    [[nodiscard]] std::uint64_t count() const noexcept {
        std::uint64_t sum = 0;
        for (const std::uint64_t in_bucket : counts)
            sum += in_bucket;
        return sum;
    }
    /// What `fraction` (0..1) of all took at most, as if they lay evenly in their bucket; 0 where there are
    /// none. Of what is longer than the last limit: that limit.
    [[nodiscard]] double percentile_ns(double fraction) const noexcept {
        const double rank = fraction * static_cast<double>(count());
        double before = 0;
        for (std::size_t i = 0; i + 1 < buckets; ++i) {
            const auto here = static_cast<double>(counts[i]);
            if (here > 0 && before + here >= rank) {
                const double low = i == 0 ? 0 : static_cast<double>(limit_ns(i - 1));
                return low + (static_cast<double>(limit_ns(i)) - low) * (rank - before) / here;
            }
            before += here;
        }
        return count() == 0 ? 0 : static_cast<double>(limit_ns(buckets - 2));
    }
};

/// Any thread adds and looks; nothing is allocated. Two locked instructions an entry.
class LatencyHistogram {
  public:
    void add(std::uint64_t ns) noexcept {
        counts_[bucket_of(ns)].fetch_add(1, std::memory_order_relaxed);
        sum_ns_.fetch_add(ns, std::memory_order_relaxed);
    }
    [[nodiscard]] LatencyCounts counts() const noexcept {
        LatencyCounts now;
        for (std::size_t i = 0; i < counts_.size(); ++i)
            now.counts[i] = counts_[i].load(std::memory_order_relaxed);
        now.sum_ns = sum_ns_.load(std::memory_order_relaxed);
        return now;
    }

  private:
    static std::size_t bucket_of(std::uint64_t ns) noexcept {
        constexpr std::size_t last = LatencyCounts::buckets - 1;
        const auto bits = static_cast<std::size_t>(std::bit_width(ns == 0 ? 0 : ns - 1));
        const std::size_t bucket = bits > LatencyCounts::first_bits ? bits - LatencyCounts::first_bits : 0;
        return bucket < last ? bucket : last;
    }

    std::array<std::atomic<std::uint64_t>, LatencyCounts::buckets> counts_{};
    std::atomic<std::uint64_t> sum_ns_{0};
};

}  // namespace railyard
