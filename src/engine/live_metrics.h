// Every metric of a LiveReport: what it is called, what it is, and which member it is.
#pragma once

#include <cstdint>

#include "engine/live_report.h"

namespace railyard::metrics {

struct Label {
    const char* name = nullptr;  ///< nullptr: none
    const char* value = nullptr;
};

/// Rows of one name follow each other; only the first one's type and help are read.
template <class Row>
struct Metric {
    const char* name;
    const char* type;
    const char* help;
    std::uint64_t Row::*value;
    Label label{};  ///< of its own, besides those of its rail or peer
};

inline constexpr const char* build_info = "railyard_build_info";
inline constexpr const char* build_info_help = "Which Railyard writes this, where, and for which agent.";
inline constexpr const char* written = "railyard_written_timestamp_seconds";
inline constexpr const char* written_help = "When this was written, in seconds since 1970.";
inline constexpr const char* peer_state = "railyard_peer_state";
inline constexpr const char* peer_state_help =
    "The state that a peer is in: one line each, whose value is 1.";
inline constexpr const char* latency = "railyard_peer_transfer_seconds";
inline constexpr const char* latency_help =
    "From a transfer's post, on a CUDA stream from when the stream gets there, to when its end was seen: "
    "each of 256 KiB and more, and one in eight others.";

inline constexpr Label write{"operation", "write"}, read{"operation", "read"},
    control{"operation", "control"};
inline constexpr Label sent{"direction", "sent"}, received{"direction", "received"};
inline constexpr Label disconnected{"error", "remote_disconnect"}, canceled{"error", "canceled"},
    other{"error", "other"};

inline constexpr Metric<RailReport> of_rails[] = {
    {"railyard_rail_load", "gauge", "Operations and submissions on the rail, roughly.", &RailReport::load},
    {"railyard_rail_crawls", "gauge", "1: it carries far less than the others with as much to do.",
     &RailReport::crawls},
    {"railyard_rail_senders_replaced_total", "counter", "Times that the rail's sender was replaced.",
     &RailReport::senders_replaced},
};

using Rail = RailTrafficReport;
inline constexpr Metric<Rail> of_rail_traffic[] = {
    {"railyard_rail_bytes_total", "counter",
     "Bytes of operations that ended well; what goes in control messages is not among them.",
     &Rail::bytes_written, write},
    {"railyard_rail_bytes_total", "", "", &Rail::bytes_read, read},
    {"railyard_rail_operations_total", "counter", "Operations that ended well.", &Rail::writes, write},
    {"railyard_rail_operations_total", "", "", &Rail::reads, read},
    {"railyard_rail_control_bytes_total", "counter", "Bytes of control messages, notifications among them.",
     &Rail::control_bytes_sent, sent},
    {"railyard_rail_control_bytes_total", "", "", &Rail::control_bytes_received, received},
    {"railyard_rail_control_fragments_total", "counter", "Fragments of at most 8 KiB that these were.",
     &Rail::fragments_sent, sent},
    {"railyard_rail_control_fragments_total", "", "", &Rail::fragments_received, received},
    {"railyard_rail_refusals_total",
     "counter",
     "Posts that the provider took not now (EAGAIN); they are made again.",
     &Rail::refusals,
     {"operation", "data"}},
    {"railyard_rail_refusals_total", "", "", &Rail::control_refusals, control},
    {"railyard_rail_repeats_total",
     "counter",
     "Operations and fragments that were sent again: interrupted with their sender, or refused by a peer "
     "without a receive buffer.",
     &Rail::repeats,
     {"operation", "data"}},
    {"railyard_rail_repeats_total", "", "", &Rail::control_repeats, control},
    {"railyard_rail_failovers_total", "counter",
     "Pieces of transfers that another rail was given, because their path had failed or cannot reach their "
     "memory.",
     &Rail::failovers},
    {"railyard_rail_errors_total", "counter", "Reads and writes that ended with an error, or were refused.",
     &Rail::disconnected, disconnected},
    {"railyard_rail_errors_total", "", "", &Rail::failed, other},
    {"railyard_rail_control_errors_total", "counter", "The same of control messages' fragments.",
     &Rail::control_errors},
    {"railyard_rail_registered_bytes", "gauge", "Memory that is registered on the rail.",
     &Rail::registered_bytes},
};

inline constexpr Metric<PeerReport> of_peers[] = {
    {"railyard_peer_paths", "gauge", "Pairs of rails that have been used towards the peer.",
     &PeerReport::paths},
    {"railyard_peer_paths_failed", "gauge", "Of these, pairs that are left alone because they failed.",
     &PeerReport::failed},
    {"railyard_peer_on_host", "gauge",
     "1: its process is on this host, and the host rail writes and reads its memory.", &PeerReport::on_host},
};

using Peer = PeerTrafficReport;
inline constexpr Metric<Peer> of_peer_traffic[] = {
    {"railyard_peer_transfers_total", "counter", "Transfers that ended well, a repost being another one.",
     &Peer::transfers_written, write},
    {"railyard_peer_transfers_total", "", "", &Peer::transfers_read, read},
    {"railyard_peer_bytes_total", "counter", "Bytes of these.", &Peer::bytes_written, write},
    {"railyard_peer_bytes_total", "", "", &Peer::bytes_read, read},
    {"railyard_peer_transfer_errors_total", "counter",
     "Transfers that ended with an error, or whose post was refused.", &Peer::disconnected, disconnected},
    {"railyard_peer_transfer_errors_total", "", "", &Peer::canceled, canceled},
    {"railyard_peer_transfer_errors_total", "", "", &Peer::failed, other},
    {"railyard_peer_notifications_total", "counter", "Notifications that the peer has taken, and we.",
     &Peer::notifications_sent, sent},
    {"railyard_peer_notifications_total", "", "", &Peer::notifications_received, received},
    {"railyard_peer_path_failures_total", "counter", "Times that a path to the peer failed.",
     &Peer::path_failures},
    {"railyard_peer_failovers_total", "counter", "Pieces of transfers to it that took another path.",
     &Peer::failovers},
    {"railyard_peer_repeats_total", "counter", "Operations on its memory that were carried out again.",
     &Peer::repeats},
};

/// The histogram's series.
struct Latency {
    Label label;
    LatencyCounts Peer::*value;
};
inline constexpr Latency latencies[] = {{write, &Peer::write_latency}, {read, &Peer::read_latency}};

}  // namespace railyard::metrics
