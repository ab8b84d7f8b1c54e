// What an engine tells of its peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/latency_histogram.h"

namespace railyard {

/// unknown: loaded, and nothing sent yet. suspect: some of its paths have failed, or transfers to it do not
/// get on. gone: all have, or it was replaced or disconnected.
enum class PeerState : std::uint8_t { unknown, connecting, ready, suspect, gone };
[[nodiscard]] const char* to_string(PeerState state) noexcept;

/// Since the peer became known to the engine, or came back to it.
struct PeerTrafficReport {
    /// Rounds of transfers that ended well, when whoever posted them saw that.
    std::uint64_t transfers_written = 0, transfers_read = 0;
    std::uint64_t bytes_written = 0, bytes_read = 0;
    std::uint64_t disconnected = 0, canceled = 0,
                  failed = 0;  ///< rounds that ended so; failed: any other error
    std::uint64_t notifications_sent = 0, notifications_received = 0;
    std::uint64_t path_failures = 0;
    std::uint64_t failovers = 0;                ///< pieces of work that took another path
    std::uint64_t repeats = 0;                  ///< operations that were carried out again
    LatencyCounts write_latency, read_latency;  ///< of every eighth small round, and of all others
};

/// A peer as it is seen now.
struct PeerReport {
    std::string agent;
    std::uint64_t nonce = 0;  ///< its instance
    PeerState state = PeerState::unknown;
    std::size_t paths = 0;                       ///< pairs of rails that have been used
    std::size_t failed = 0;                      ///< of them, those that are left alone
    std::uint64_t on_host = 0;                   ///< 1: the host rail reaches its process
    std::optional<PeerTrafficReport> traffic{};  ///< in a LiveReport, where there was any
};

}  // namespace railyard
