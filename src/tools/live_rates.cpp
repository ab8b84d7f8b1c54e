#include "tools/live_rates.h"

#include <algorithm>
#include <string_view>

#include "common/status.h"
#include "engine/live_metrics.h"

namespace railyard::tools {
namespace {

std::uint64_t grown(std::uint64_t before, std::uint64_t after) noexcept {
    return after >= before ? after - before : after;
}

/// Of the counters that `metrics` has; what else there is stays.
template <class Row, std::size_t count>
void take_rates(const metrics::Metric<Row> (&table)[count], const Row& before, Row& after,
                std::uint64_t interval_ms) noexcept {
    bool counter = false;
    for (const metrics::Metric<Row>& metric : table) {
        const std::string_view type = metric.type;
        if (!type.empty()) counter = type == "counter";
        if (!counter) continue;
        std::uint64_t& value = after.*metric.value;
        value = (grown(before.*metric.value, value) * 1000 + interval_ms - 1) / interval_ms;
    }
}

void take_growth(const LatencyCounts& before, LatencyCounts& after) noexcept {
    for (std::size_t i = 0; i < LatencyCounts::buckets; ++i)
        after.counts[i] = grown(before.counts[i], after.counts[i]);
    after.sum_ns = grown(before.sum_ns, after.sum_ns);
}

void take_rates(const std::vector<RailReport>& before, RailReport& rail, std::uint64_t interval_ms) {
    const auto same = std::find_if(before.begin(), before.end(),
                                   [&](const RailReport& one) { return one.name == rail.name; });
    const RailReport earlier = same == before.end() ? RailReport{} : *same;
    take_rates(metrics::of_rails, earlier, rail, interval_ms);
    if (rail.traffic)
        take_rates(metrics::of_rail_traffic, earlier.traffic.value_or(RailTrafficReport{}), *rail.traffic,
                   interval_ms);
}

void take_rates(const std::vector<PeerReport>& before, PeerReport& peer, std::uint64_t interval_ms) {
    if (!peer.traffic) return;
    const auto same = std::find_if(before.begin(), before.end(), [&](const PeerReport& one) {
        return one.agent == peer.agent && one.nonce == peer.nonce;
    });
    const PeerTrafficReport earlier =
        same == before.end() ? PeerTrafficReport{} : same->traffic.value_or(PeerTrafficReport{});
    take_rates(metrics::of_peer_traffic, earlier, *peer.traffic, interval_ms);
    for (const metrics::Latency& latency : metrics::latencies)
        take_growth(earlier.*latency.value, (*peer.traffic).*latency.value);
}

}  // namespace

LiveFile rates_between(const LiveFile& before, const LiveFile& after) {
    if (before.report.nonce != after.report.nonce)
        throw Error(Status::mismatch,
                    "\"" + after.path + "\" is another engine's now: look again to compare it with itself");
    if (after.report.written_ms <= before.report.written_ms)
        throw Error(Status::mismatch,
                    "\"" + after.path +
                        "\" has told nothing new in between: give a longer --interval (a file is written "
                        "once a second), or nobody drives its engine");
    LiveFile rates = after;
    rates.interval_ms = after.report.written_ms - before.report.written_ms;
    for (RailReport& rail : rates.report.rails)
        take_rates(before.report.rails, rail, rates.interval_ms);
    for (PeerReport& peer : rates.report.peers)
        take_rates(before.report.peers, peer, rates.interval_ms);
    return rates;
}

}  // namespace railyard::tools
