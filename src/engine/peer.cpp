#include "engine/peer.h"

#include "common/log.h"

namespace railyard {
namespace {

constexpr std::uint64_t announce_again_ns = 1'000'000'000;

}  // namespace

Peer::Peer(ConnectionInfo info, const std::shared_ptr<RailManager>& rails)
    : info_(std::move(info)),
      all_(rail_range(info_.rails.size())),
      rails_(rails),
      needs_introduction_(rails->needs_introduction()) {}

Peer::~Peer() {
    const std::shared_ptr<RailManager> rails = rails_.lock();
    if (!rails) return;
    for (const auto& [pair, endpoint] : resolved_)
        rails->rail(pair.first).remove_peer(endpoint.address);
}

const PeerEndpoint& Peer::resolve(RailPair pair) {
    const MutexLock lock(mutex_);
    const auto known = resolved_.find({pair.local, pair.remote});
    if (known != resolved_.end()) return known->second;
    const std::shared_ptr<RailManager> rails = rails_.lock();
    if (!rails) throw Error(Status::not_allowed, "the engine is being destroyed");
    const PeerAddress address = rails->rail(pair.local).insert_peer(info_.rails.at(pair.remote));
    PeerEndpoint& endpoint = resolved_[{pair.local, pair.remote}];
    endpoint.address = address;
    if (needs_introduction_) unacquainted_.fetch_add(1, std::memory_order_relaxed);
    return endpoint;
}

void Peer::require_introduction() {
    const MutexLock lock(mutex_);
    if (needs_introduction_) return;
    needs_introduction_ = true;
    unacquainted_.fetch_add(static_cast<std::uint32_t>(resolved_.size()), std::memory_order_relaxed);
}

std::vector<RailPair> Peer::take_unannounced(std::uint64_t now_ns) {
    std::vector<RailPair> pairs;
    if (!unacquainted()) return pairs;
    const MutexLock lock(mutex_);
    const bool again = now_ns - announced_at_ >= announce_again_ns;
    for (auto& [pair, endpoint] : resolved_) {
        if (endpoint.introduced.load(std::memory_order_relaxed) || (endpoint.announced && !again)) continue;
        endpoint.announced = true;
        pairs.push_back({pair.first, pair.second});
    }
    if (!pairs.empty()) announced_at_ = now_ns;
    return pairs;
}

void Peer::introduced(std::span<const RailPair> pairs) {
    const MutexLock lock(mutex_);
    for (const RailPair pair : pairs) {
        const auto known = resolved_.find({pair.local, pair.remote});
        if (known == resolved_.end()) continue;
        // Release: pairs with the rail's look at the gate.
        if (!known->second.introduced.exchange(true, std::memory_order_release))
            unacquainted_.fetch_sub(1, std::memory_order_relaxed);
    }
}

std::shared_ptr<Peer> PeerTable::put(ConnectionInfo info, const std::shared_ptr<RailManager>& rails) {
    const MutexLock lock(mutex_);
    std::shared_ptr<Peer>& entry = peers_[info.agent];
    if (entry && entry->nonce() == info.nonce) return nullptr;
    RAILYARD_LOG(info, info.agent.c_str(), "%s: instance %016llx with %zu rails",
                 entry ? "replaced" : "known", static_cast<unsigned long long>(info.nonce),
                 info.rails.size());
    std::shared_ptr<Peer> old = std::move(entry);
    if (old) old->mark_gone();
    entry = std::make_shared<Peer>(std::move(info), rails);
    return old;
}

std::shared_ptr<Peer> PeerTable::find(const std::string& agent) const {
    const MutexLock lock(mutex_);
    const auto found = peers_.find(agent);
    return found == peers_.end() ? nullptr : found->second;
}

std::shared_ptr<Peer> PeerTable::remove(const std::string& agent) {
    const MutexLock lock(mutex_);
    const auto found = peers_.find(agent);
    if (found == peers_.end()) return nullptr;
    std::shared_ptr<Peer> peer = std::move(found->second);
    peers_.erase(found);
    peer->mark_gone();
    return peer;
}

}  // namespace railyard
