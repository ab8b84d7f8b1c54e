// What a peer tells of itself.
#include "engine/peer_report.h"

#include "engine/peer.h"

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
    report.on_host = on_host_ && !on_host_->path.failed() ? 1 : 0;
    return report;
}

PeerTraffic& Peer::traffic() {
    if (PeerTraffic* const known = counted()) return *known;
    const MutexLock lock(mutex_);
    if (!owned_traffic_) {
        owned_traffic_ = std::make_unique<PeerTraffic>();
        traffic_.store(owned_traffic_.get(), std::memory_order_release);
    }
    return *owned_traffic_;
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
