// What a peer and we have told each other of our senders.
#include <algorithm>
#include <new>
#include <utility>

#include "engine/peer.h"

namespace railyard {
namespace {

/// What is not acknowledged is said again so much later.
constexpr std::uint64_t announce_again_ns = 1'000'000'000;

}  // namespace

void Peer::require_introduction() {
    const MutexLock lock(mutex_);
    if (needs_introduction_) return;
    needs_introduction_ = true;
    count_unacquainted();
}

/// Anew each time: a sender may have been replaced since the last one, and nobody has counted its pairs.
void Peer::count_unacquainted() noexcept {
    const auto unacquainted = [](const auto& endpoint) {
        return !endpoint->path.admits(endpoint->rail->sender_generation());
    };
    const auto count = std::count_if(resolved_.begin(), resolved_.end(), unacquainted);
    unacquainted_.store(static_cast<std::uint32_t>(count), std::memory_order_relaxed);
}

std::vector<IntroducedPair> Peer::take_unannounced(std::uint64_t now_ns) {
    std::vector<IntroducedPair> pairs;
    if (!unacquainted() && !doubted_.load(std::memory_order_relaxed)) return pairs;
    const std::shared_ptr<RailManager> rails = rails_.lock();
    if (!rails) return pairs;
    const MutexLock lock(mutex_);
    const bool all = doubted_.exchange(false, std::memory_order_relaxed);
    // Another thread may have announced some after this one had read the clock.
    const bool again = all || now_ns >= announced_at_ + announce_again_ns;
    for (const auto& endpoint : resolved_) {
        const Rail& rail = *endpoint->rail;
        const std::uint32_t current = rail.sender_generation();
        if ((endpoint->path.admits(current) && !all) || (endpoint->announced == current && !again)) continue;
        Rail::Sender sender = rail.sender();
        if (sender.address.empty() && rail.sender_generation() != 1) continue;  // it is being replaced
        endpoint->announced = sender.generation;
        pairs.push_back({endpoint->pair, sender.generation, std::move(sender.address)});
    }
    if (!pairs.empty()) announced_at_ = now_ns;
    return pairs;
}

void Peer::announce_again() noexcept {
    const MutexLock lock(mutex_);
    announced_at_ = 0;
}

void Peer::introduced(std::span<const IntroducedPair> pairs) {
    const std::shared_ptr<RailManager> rails = rails_.lock();
    if (!rails) return;
    const MutexLock lock(mutex_);
    if (!needs_introduction_) return;
    for (const IntroducedPair& introduced : pairs) {
        const auto known = place_of(introduced.pair);
        if (known == resolved_.end() || (*known)->pair != introduced.pair) continue;
        PeerEndpoint& endpoint = **known;
        const std::uint32_t current = endpoint.rail->sender_generation();
        if (introduced.generation != current || endpoint.path.admits(current)) continue;
        endpoint.introduced_before = true;
        endpoint.path.admit(current);
    }
    count_unacquainted();
}

bool Peer::look_at_senders() {
    const std::shared_ptr<RailManager> rails = rails_.lock();
    if (!rails || !needs_introduction_) return false;
    bool untold = doubted_.load(std::memory_order_relaxed);
    const MutexLock lock(mutex_);
    std::uint32_t unacquainted = 0;
    for (const auto& endpoint : resolved_) {
        const std::uint32_t current = endpoint->rail->sender_generation();
        if (endpoint->path.admits(current)) continue;
        ++unacquainted;
        // Forgotten by the peer, or replaced before it could answer. Others wait for their first use.
        const bool forgotten = endpoint->introduced_before;
        endpoint->introduced_before = false;
        untold = untold || forgotten || (endpoint->announced != 0 && endpoint->announced != current);
        if (forgotten) endpoint->announced = 0;
    }
    unacquainted_.store(unacquainted, std::memory_order_relaxed);
    return untold;
}

Peer::Senders::iterator Peer::sender_at(RailPair ours_first) {
    return std::lower_bound(admitted_.begin(), admitted_.end(), ours_first,
                            [](const Admitted& known, RailPair wanted) { return known.pair < wanted; });
}

void Peer::admit(RailPair ours_first, std::uint32_t generation, const std::string& sender) {
    const std::shared_ptr<RailManager> rails = rails_.lock();
    if (!rails || sender.empty()) return;
    const MutexLock lock(mutex_);
    auto place = sender_at(ours_first);
    const bool is_first = place == admitted_.end() || place->pair != ours_first;
    if (!is_first && generation <= place->generation) return;
    if (is_first) place = admitted_.insert(place, {ours_first});  // it may throw
    Rail& rail = rails->rail(ours_first.local);
    PeerAddress address = no_address;
    try {
        address = rail.admit_sender(sender);
    } catch (...) {
        if (is_first) admitted_.erase(place);
        throw;
    }
    if (!is_first) rail.dismiss_sender(place->address);
    *place = {ours_first, generation, address};
}

void Peer::take_senders(Peer& other) noexcept {
    const std::shared_ptr<RailManager> rails = rails_.lock();
    if (!rails || &other == this) return;
    Senders theirs;
    {
        const MutexLock lock(other.mutex_);
        theirs.swap(other.admitted_);
    }
    const MutexLock lock(mutex_);
    if (admitted_.empty()) return admitted_.swap(theirs);
    for (const Admitted& sender : theirs) {
        const auto place = sender_at(sender.pair);
        Admitted left = sender;
        if (place != admitted_.end() && place->pair == sender.pair) {
            if (sender.generation > place->generation) std::swap(*place, left);
        } else {
            try {
                admitted_.insert(place, sender);
                continue;
            } catch (const std::bad_alloc&) {
                // Its answers go the ordinary way.
            }
        }
        rails->rail(left.pair.local).dismiss_sender(left.address);
    }
}

Peer::Asker Peer::asks_from() {
    const PeerEndpoint* const control = control_.load(std::memory_order_acquire);
    if (!control) return {};
    const MutexLock lock(mutex_);
    const auto sender = sender_at(control->pair);
    if (sender == admitted_.end() || sender->pair != control->pair) return {};
    return {control->rail, sender->address, control->rail->removals()};
}

}  // namespace railyard
