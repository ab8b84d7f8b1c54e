// A peer: one instance of an agent, and its endpoints as our rails address them.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "engine/metadata.h"
#include "manager/lane_plan.h"
#include "manager/rail_manager.h"

namespace railyard {

/// Control messages travel between the first rails.
inline constexpr RailPair control_pair{0, 0};

/// One rail of a peer as one of ours reaches it.
struct PeerEndpoint {
    PeerAddress address = no_address;
    bool announced = false;               ///< guarded by the peer's mutex
    std::atomic<bool> introduced{false};  ///< the peer has said that it knows our rail of the pair
};

/// Shared by the peer table and the transfers and messages towards it. Gives its addresses back to the rails
/// when it goes, where they still exist; so the last reference must not be dropped with a rail's role held.
/// Any thread.
class Peer {
  public:
    Peer(ConnectionInfo info, const std::shared_ptr<RailManager>& rails);
    ~Peer();
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    [[nodiscard]] const std::string& agent() const noexcept { return info_.agent; }
    [[nodiscard]] std::uint64_t nonce() const noexcept { return info_.nonce; }
    [[nodiscard]] std::size_t rail_count() const noexcept { return info_.rails.size(); }
    [[nodiscard]] const RailSet& rails() const noexcept { return all_; }
    [[nodiscard]] bool has_rails(const std::vector<std::string>& addresses) const noexcept {
        return info_.rails == addresses;
    }

    /// The peer's rail as our rail of the pair addresses it, resolved on first use. Stays where it is for the
    /// peer's life. Throws Error.
    const PeerEndpoint& resolve(RailPair pair);

    /// The gate of a route over `endpoint`: nullptr where peers need no introduction.
    [[nodiscard]] const std::atomic<bool>* gate(const PeerEndpoint& endpoint) const noexcept {
        return needs_introduction_ ? &endpoint.introduced : nullptr;
    }
    /// The peer will have to reach us, whatever the provider wants: it gets our addresses.
    void require_introduction();
    /// True while pairs are resolved that the peer has not acknowledged.
    [[nodiscard]] bool unacquainted() const noexcept {
        return unacquainted_.load(std::memory_order_relaxed) != 0;
    }
    /// Pairs to announce to the peer now: new ones, and all that it has not acknowledged for a while.
    std::vector<RailPair> take_unannounced(std::uint64_t now_ns);
    void introduced(std::span<const RailPair> pairs);

    /// Replaced by a newer instance, or disconnected: nothing more is posted to it.
    void mark_gone() noexcept { gone_.store(true, std::memory_order_release); }
    [[nodiscard]] bool gone() const noexcept { return gone_.load(std::memory_order_acquire); }

  private:
    const ConnectionInfo info_;
    const RailSet all_;
    const std::weak_ptr<RailManager> rails_;
    std::atomic<bool> needs_introduction_;  // written under the mutex
    Mutex mutex_;
    std::map<std::pair<std::uint16_t, std::uint16_t>, PeerEndpoint> resolved_ ABSL_GUARDED_BY(mutex_);
    std::uint64_t announced_at_ ABSL_GUARDED_BY(mutex_) = 0;  // ns
    std::atomic<std::uint32_t> unacquainted_{0};              // written under the mutex
    std::atomic<bool> gone_{false};
};

/// Known peers by agent name. Any thread.
class PeerTable {
  public:
    /// Adds or replaces; the same instance again changes nothing. Returns what was replaced, if anything.
    std::shared_ptr<Peer> put(ConnectionInfo info, const std::shared_ptr<RailManager>& rails);
    /// nullptr for an agent that is not known.
    [[nodiscard]] std::shared_ptr<Peer> find(const std::string& agent) const;
    std::shared_ptr<Peer> remove(const std::string& agent);

  private:
    mutable Mutex mutex_;
    std::map<std::string, std::shared_ptr<Peer>> peers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace railyard
