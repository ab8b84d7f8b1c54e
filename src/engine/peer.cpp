#include "engine/peer.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "common/log.h"
#include "common/spoken.h"

namespace railyard {

Peer::Peer(const ConnectionInfo& info, const std::shared_ptr<RailManager>& rails,
           std::shared_ptr<MessageIds> ids)
    : agent_(info.agent),
      nonce_(info.nonce),
      addresses_(info.rails),
      all_(rail_range(info.rails.size())),
      rails_(rails),
      ids_(std::move(ids)),
      needs_introduction_(rails->needs_introduction()),
      process_(info.rails.empty() ? std::string_view() : info.rails.front()),
      lock_rescue_(process_, info.rails),
      host_address_(info.host) {}

std::shared_ptr<Peer> Peer::anew() const {
    const std::shared_ptr<RailManager> rails = rails_.lock();
    if (!rails) throw Error(Status::not_allowed, "the engine is being destroyed");
    const ConnectionInfo info{agent_, nonce_, rails->provider(), addresses_.unpacked(), host_address_};
    return std::make_shared<Peer>(info, rails, ids_);
}

Peer::~Peer() {
    const std::shared_ptr<RailManager> rails = rails_.lock();
    if (rails && !rails->own_process()) return;  // a thread of the parent may have been at work on them
    log_totals();
    if (!rails) return;
    for (const auto& endpoint : resolved_)
        endpoint->rail->remove_peer(endpoint->address);
    for (const Admitted& sender : admitted_)
        rails->rail(sender.pair.local).dismiss_sender(sender.address);
    if (on_host_) on_host_->rail->remove_peer(on_host_->address);
}

Peer::Endpoints::iterator Peer::place_of(RailPair pair) {
    return std::lower_bound(resolved_.begin(), resolved_.end(), pair,
                            [](const auto& endpoint, RailPair wanted) { return endpoint->pair < wanted; });
}

PeerEndpoint& Peer::resolve(RailPair pair) {
    const MutexLock lock(mutex_);
    const auto place = place_of(pair);
    if (place != resolved_.end() && (*place)->pair == pair) return **place;
    const std::shared_ptr<RailManager> rails = rails_.lock();
    if (!rails) throw Error(Status::not_allowed, "the engine is being destroyed");
    // First, because it may throw, and an address that has been inserted is to be given back.
    const auto added = resolved_.insert(place, std::make_unique<PeerEndpoint>());
    PeerEndpoint& endpoint = **added;
    endpoint.pair = pair;
    endpoint.rail = &rails->rail(pair.local);
    try {
        endpoint.address = endpoint.rail->insert_peer(addresses_.at(pair.remote));
    } catch (...) {
        resolved_.erase(added);
        throw;
    }
    if (pair == control_pair) control_.store(&endpoint, std::memory_order_release);
    if (needs_introduction_) unacquainted_.fetch_add(1, std::memory_order_relaxed);
    return endpoint;
}

void Peer::resolve_all() {
    const std::shared_ptr<RailManager> rails = rails_.lock();
    if (!rails) return;
    std::exception_ptr first;
    for (const RailPair pair : rails->pairs_with(all_)) {
        try {
            resolve(pair);
        } catch (const Error&) {
            if (!first) first = std::current_exception();
        }
    }
    if (first) std::rethrow_exception(first);
}

std::size_t Peer::weight() const {
    const MutexLock lock(mutex_);
    return 1 + addresses_.size() + resolved_.size() + admitted_.size();
}

bool Peer::move_to(PeerState state) noexcept {
    const PeerState before = state_.exchange(state, std::memory_order_acq_rel);
    // Who looks after it may come in the middle of its end.
    if (state != PeerState::gone && gone()) state_.store(PeerState::gone, std::memory_order_release);
    if (before == state) return false;
    RAILYARD_LOG(info, agent().c_str(), "instance %016llx: %s, was %s",
                 static_cast<unsigned long long>(nonce()), to_string(state), to_string(before));
    return true;
}

std::shared_ptr<Peer> PeerTable::put(std::shared_ptr<Peer> peer) {
    const MutexLock lock(mutex_);
    const auto known = peers_.find(peer->agent());
    if (known != peers_.end() && known->second->nonce() == peer->nonce()) return nullptr;
    RAILYARD_LOG(info, peer->agent().c_str(), "%s: instance %016llx with %s",
                 known != peers_.end() ? "replaced" : "known", static_cast<unsigned long long>(peer->nonce()),
                 counted(peer->rail_count(), "rail").c_str());
    if (known == peers_.end()) {
        peers_.emplace(peer->agent(), std::move(peer));
        return nullptr;
    }
    known->second->mark_gone();
    return std::exchange(known->second, std::move(peer));
}

std::shared_ptr<Peer> PeerTable::find(const std::string& agent) const {
    const MutexLock lock(mutex_);
    const auto found = peers_.find(agent);
    return found == peers_.end() ? nullptr : found->second;
}

void PeerTable::list(std::vector<std::shared_ptr<Peer>>& peers) const {
    peers.clear();
    const MutexLock lock(mutex_);
    peers.reserve(peers_.size());
    for (const auto& [agent, peer] : peers_)
        peers.push_back(peer);
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
