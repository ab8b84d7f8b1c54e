// What went to and fro between us and a peer, as it is counted while it happens.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "common/latency_histogram.h"
#include "common/status.h"

namespace railyard {

/// Relaxed atomics: any thread counts, the engine's report reads.
struct PeerTraffic {
    using Counter = std::atomic<std::uint64_t>;
    static void count(Counter& counter, std::uint64_t more = 1) noexcept {
        counter.fetch_add(more, std::memory_order_relaxed);
    }

    struct Direction {
        /// Of transfers that have been freed; those that are there count for themselves.
        Counter transfers{0}, bytes{0};
    };
    std::array<Direction, 2> directions;              ///< by Work::Kind
    Counter disconnected{0}, canceled{0}, failed{0};  ///< rounds that ended with that, or any other error
    Counter notifications{0};                         ///< that have been delivered

    /// Rounds that ended well of transfers that have been freed; wraps.
    [[nodiscard]] std::uint32_t freed() const noexcept {
        std::uint64_t sum = 0;
        for (const Direction& direction : directions)
            sum += direction.transfers.load(std::memory_order_relaxed);
        return static_cast<std::uint32_t>(sum);
    }

    void count_error(Status status) noexcept {
        count(status == Status::remote_disconnect ? disconnected
              : status == Status::canceled        ? canceled
                                                  : failed);
    }
};

/// By Work::Kind. Six times as large as the counters, so only where an engine tells its statistics: made with
/// the first transfer that is prepared to the peer, or the first notification.
using PeerLatencies = std::array<LatencyHistogram, 2>;

}  // namespace railyard
