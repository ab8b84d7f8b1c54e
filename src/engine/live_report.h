// What a running engine tells of itself, to and from Prometheus' text format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/peer_report.h"

namespace railyard {

/// Since the engine's start; see RailCounters.
struct RailTrafficReport {
    std::uint64_t bytes_written = 0, bytes_read = 0;
    std::uint64_t writes = 0, reads = 0;  ///< operations
    std::uint64_t control_bytes_sent = 0, control_bytes_received = 0;
    std::uint64_t fragments_sent = 0, fragments_received = 0;
    std::uint64_t refusals = 0, control_refusals = 0;
    std::uint64_t repeats = 0, control_repeats = 0;
    std::uint64_t failovers = 0;
    std::uint64_t disconnected = 0, failed = 0, control_errors = 0;
    std::uint64_t registered_bytes = 0;  ///< now
};

/// A rail as it is seen now.
struct RailReport {
    std::string name;
    std::uint64_t load = 0;                      ///< operations and submissions on it, roughly
    std::uint64_t crawls = 0;                    ///< 1: it carries far less than the others
    std::uint64_t senders_replaced = 0;          ///< since the engine's start
    std::optional<RailTrafficReport> traffic{};  ///< none in what earlier versions wrote
};

struct LiveReport {
    std::string version;  ///< of Railyard
    std::string agent;
    std::uint64_t nonce = 0;  ///< the engine's instance
    std::string provider;
    std::uint64_t pid = 0;
    std::uint64_t written_ms = 0;  ///< since 1970
    std::vector<RailReport> rails{};
    std::vector<PeerReport> peers{};
};

/// As it is written wherever people read it: 16 hexadecimal digits.
[[nodiscard]] std::string instance_text(std::uint64_t nonce);
/// With nine decimals, so exactly.
[[nodiscard]] std::string seconds_text(std::uint64_t ns);
/// The limit of a bucket of LatencyCounts, in seconds, as the report names it (`le`).
[[nodiscard]] std::string bucket_text(std::size_t bucket);

/// The last line of every report.
inline constexpr std::string_view end_of_report = "# EOF";

/// Appends the report to `text`. No sample is one of another engine's, whose agent may have the same name:
/// the label "engine" is the instance. What a label cannot hold (control characters, bytes that are no UTF-8)
/// is U+FFFD there. A further figure of a peer or a rail is a member of its report and a row of the tables in
/// live_metrics.h.
void to_prometheus(const LiveReport& report, std::string& text);

/// Reads what to_prometheus has written; metrics that it does not know are passed over. Throws
/// Error{mismatch} naming the line, or what is missing.
[[nodiscard]] LiveReport parse_live_report(std::string_view text);

}  // namespace railyard
