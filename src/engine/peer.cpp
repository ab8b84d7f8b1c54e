#include "engine/peer.h"

#include "common/log.h"

namespace railyard {

Peer::Peer(ConnectionInfo info, const std::shared_ptr<RailManager>& rails)
    : info_(std::move(info)), all_(rail_range(info_.rails.size())), rails_(rails) {}

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
    return resolved_.emplace(std::pair{pair.local, pair.remote}, PeerEndpoint{address}).first->second;
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
