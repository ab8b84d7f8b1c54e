// What transfers took so far: a running latency for small ones and a rate for large ones.
#pragma once

#include <atomic>
#include <cstdint>

namespace railyard {

/// Relaxed atomics: any thread may record and estimate; two records at once may lose one, which does not
/// matter.
class RateModel {
  public:
    RateModel() = default;
    RateModel(const RateModel& other) noexcept
        : latency_ns_(other.latency_ns_.load(std::memory_order_relaxed)),
          bytes_per_ns_(other.bytes_per_ns_.load(std::memory_order_relaxed)) {}
    RateModel& operator=(const RateModel&) = delete;

    static constexpr std::uint64_t small_bytes = 16 << 10;
    static constexpr std::uint64_t large_bytes = 256 << 10;

    void record(std::uint64_t bytes, std::uint64_t nanoseconds) noexcept {
        if (nanoseconds == 0) return;
        if (bytes <= small_bytes) blend(latency_ns_, static_cast<double>(nanoseconds));
        if (bytes >= large_bytes)
            blend(bytes_per_ns_, static_cast<double>(bytes) / static_cast<double>(nanoseconds));
    }
    /// What another one has measured, as one record more.
    void blend_in(const RateModel& other) noexcept {
        if (other.has_latency()) blend(latency_ns_, other.latency_ns_.load(std::memory_order_relaxed));
        if (other.has_rate()) blend(bytes_per_ns_, other.bytes_per_ns_.load(std::memory_order_relaxed));
    }
    [[nodiscard]] bool has_latency() const noexcept {
        return latency_ns_.load(std::memory_order_relaxed) > 0;
    }
    [[nodiscard]] bool has_rate() const noexcept { return bytes_per_ns_.load(std::memory_order_relaxed) > 0; }
    /// Nanoseconds for `bytes`; 0 when nothing was measured.
    [[nodiscard]] double estimate_ns(std::uint64_t bytes) const noexcept {
        const double rate = bytes_per_ns_.load(std::memory_order_relaxed);
        return latency_ns_.load(std::memory_order_relaxed) +
               (rate > 0 ? static_cast<double>(bytes) / rate : 0);
    }

  private:
    static void blend(std::atomic<double>& average, double sample) noexcept {
        const double old = average.load(std::memory_order_relaxed);
        average.store(old > 0 ? old + (sample - old) / 8 : sample, std::memory_order_relaxed);
    }

    std::atomic<double> latency_ns_{0};
    std::atomic<double> bytes_per_ns_{0};
};

}  // namespace railyard
