// What a peer tells of itself.
#include "engine/peer_report.h"

#include "common/log.h"
#include "engine/peer.h"
#include "rail/work.h"

namespace railyard {

const char* to_string(PeerState state) noexcept {
    static constexpr const char* names[] = {"unknown", "connecting", "ready", "suspect", "gone"};
    return names[static_cast<std::size_t>(state)];
}

PeerReport Peer::report() const {
    PeerReport report{agent(), nonce(), state()};
    const MutexLock lock(mutex_);
    for (const auto& endpoint : resolved_) {
        ++report.paths;
        report.failed += endpoint->path.failed() ? 1 : 0;
    }
    report.on_host =
        on_host_ && !on_host_->path.failed() && HostPeerRail::process_at(on_host_->address).may_copy() ? 1
                                                                                                       : 0;
    return report;
}

PeerLatencies& Peer::measured() {
    if (PeerLatencies* const known = latencies()) return *known;
    const MutexLock lock(mutex_);
    if (!owned_latencies_) {
        owned_latencies_ = std::make_unique<PeerLatencies>();
        latencies_.store(owned_latencies_.get(), std::memory_order_release);
    }
    return *owned_latencies_;
}

void Peer::log_totals() const noexcept {
    const auto now = [](const PeerTraffic::Counter& counter) {
        return static_cast<unsigned long long>(counter.load(std::memory_order_relaxed));
    };
    const auto plural = [](unsigned long long count) { return count == 1 ? "" : "s"; };
    const auto& written = traffic.directions[static_cast<std::size_t>(Work::Kind::write)];
    const auto& read = traffic.directions[static_cast<std::size_t>(Work::Kind::read)];
    const auto errors = now(traffic.disconnected) + now(traffic.canceled) + now(traffic.failed);
    if (now(written.transfers) + now(read.transfers) + now(traffic.notifications) + errors == 0) return;
    RAILYARD_LOG(
        info, agent_.c_str(),
        "forgotten, after %llu write%s of %llu bytes, %llu read%s of %llu, %llu notification%s to it, "
        "and %llu error%s",
        now(written.transfers), plural(now(written.transfers)), now(written.bytes), now(read.transfers),
        plural(now(read.transfers)), now(read.bytes), now(traffic.notifications),
        plural(now(traffic.notifications)), errors, plural(errors));
}

void Peer::report_paths(PeerTrafficReport& report) const {
    const MutexLock lock(mutex_);
    for (const auto& endpoint : resolved_) {
        report.path_failures += endpoint->path.failures();
        report.failovers += endpoint->path.failovers();
        report.repeats += endpoint->path.repeats();
    }
    if (!on_host_) return;
    report.path_failures += on_host_->path.failures();
    report.failovers += on_host_->path.failovers();
}

}  // namespace railyard
