// What a running engine tells of itself: to its statistics file, and to whoever asks at its socket; and how
// long transfers take, and may take.
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "common/clock.h"
#include "engine/engine_impl.h"
#include "railyard_version.h"

namespace railyard {
namespace {

constexpr auto by_write = static_cast<std::size_t>(Work::Kind::write);
constexpr auto by_read = static_cast<std::size_t>(Work::Kind::read);

RailTrafficReport report_of(const RailCounters& counters, std::uint64_t registered_bytes) {
    RailTrafficReport report;
    report.bytes_written = counters.bytes[by_write];
    report.bytes_read = counters.bytes[by_read];
    report.writes = counters.operations[by_write];
    report.reads = counters.operations[by_read];
    report.control_bytes_sent = counters.control.bytes_sent;
    report.control_bytes_received = counters.control.bytes_received;
    report.fragments_sent = counters.control.fragments_sent;
    report.fragments_received = counters.control.fragments_received;
    report.refusals = counters.refusals;
    report.control_refusals = counters.control.refusals;
    report.repeats = counters.repeats;
    report.control_repeats = counters.control.repeats;
    report.failovers = counters.failovers;
    report.disconnected = counters.disconnected;
    report.failed = counters.failed;
    report.control_errors = counters.control.errors;
    report.registered_bytes = registered_bytes;
    return report;
}

void add_counted(const Peer& peer, PeerTrafficReport& report) {
    const PeerTraffic& counted = peer.traffic;
    const auto now = [](const PeerTraffic::Counter& counter) {
        return counter.load(std::memory_order_relaxed);
    };
    report.disconnected = now(counted.disconnected);
    report.canceled = now(counted.canceled);
    report.failed = now(counted.failed);
    report.notifications_sent = now(counted.notifications);
    if (const PeerLatencies* const latencies = peer.latencies()) {
        report.write_latency = (*latencies)[by_write].counts();
        report.read_latency = (*latencies)[by_read].counts();
    }
}

}  // namespace

std::vector<PeerReport> Engine::Impl::peers() const {
    std::vector<std::shared_ptr<Peer>> known;
    peers_.list(known);
    std::vector<PeerReport> reports;
    for (const std::shared_ptr<Peer>& peer : known)
        reports.push_back(peer->report());
    return reports;
}

/// Of watched_peers_. Waits for the rails' roles.
LiveReport Engine::Impl::live_report() {
    const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
    LiveReport report{RAILYARD_VERSION,
                      agent(),
                      nonce_,
                      rails_->provider(),
                      static_cast<std::uint64_t>(getpid()),
                      static_cast<std::uint64_t>(
                          std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count())};
    std::vector<std::uint64_t> registered;
    {
        const MutexLock lock(registrations_mutex_);
        registered = registered_bytes_;
    }
    for (std::size_t i = 0; i < rails_->size(); ++i) {
        Rail& rail = rails_->rail(i);
        report.rails.push_back({rail.name(), rail.load(), pace_.crawls(i) ? 1u : 0u,
                                rail.sender_generation() - 1, report_of(rail.counters(), registered[i])});
    }
    std::vector<Rail*> others = rails_->copies();
    if (rails_->host()) others.insert(others.begin(), rails_->host());
    for (Rail* const rail : others)
        report.rails.push_back({rail->name(), rail->load(), 0, 0, report_of(rail->counters(), 0)});
    transfers_.add_up(watched_peers_);
    for (const std::shared_ptr<Peer>& peer : watched_peers_) {
        PeerReport& told = report.peers.emplace_back(peer->report());
        const std::uint64_t notified = inbox_.notifications_from(peer->nonce());
        if (!peer->latencies() && notified == 0) continue;
        PeerTrafficReport& traffic = told.traffic.emplace();
        add_counted(*peer, traffic);
        traffic.transfers_written = peer->watched.transfers[by_write];
        traffic.transfers_read = peer->watched.transfers[by_read];
        traffic.bytes_written = peer->watched.bytes[by_write];
        traffic.bytes_read = peer->watched.bytes[by_read];
        traffic.notifications_received = notified;
        peer->report_paths(traffic);
    }
    return report;
}

/// When it wants to be called again.
std::uint64_t Engine::Impl::tell(std::uint64_t now) {
    if (stats_file_ && stats_file_->due(now)) stats_file_->write(live_report(), now);
    if (!stats_socket_) return UINT64_MAX;
    return stats_socket_->serve(now, [this] {
        std::string text;
        to_prometheus(live_report(), text);
        return text;
    });
}

/// By itself, so that the others need no room for a clock's answer.
void Engine::Impl::measure(const Transfer& transfer) noexcept {
    const std::uint64_t taken = now_ns() - transfer.posted_at.load(std::memory_order_relaxed);
    callers_.mine().rates.record(transfer.total_bytes, taken);
    if (transfer.latencies) (*transfer.latencies)[static_cast<std::size_t>(transfer.kind)].add(taken);
}

CostEstimate Engine::Impl::estimate(const Transfer& transfer) const noexcept {
    CostEstimate estimate;
    const RateModel rates = callers_.rates();
    const bool large = transfer.total_bytes > RateModel::small_bytes;
    estimate.measured = large ? rates.has_rate() : rates.has_latency();
    double nanoseconds = rates.estimate_ns(transfer.total_bytes);
    if (!estimate.measured) nanoseconds += static_cast<double>(transfer.total_bytes);  // a guess: 1 GB/s
    estimate.duration = std::chrono::microseconds(static_cast<std::int64_t>(nanoseconds / 1000) + 1);
    estimate.error_margin = estimate.measured ? estimate.duration / 2 : estimate.duration * 4;
    return estimate;
}

}  // namespace railyard
