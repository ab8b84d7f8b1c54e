// A peer: one instance of an agent, and its endpoints as our rails address them.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
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

    /// The peer's rail as our rail of the pair addresses it, resolved on first use. Stays where it is for the
    /// peer's life. Throws Error.
    const PeerEndpoint& resolve(RailPair pair);

    /// Replaced by a newer instance, or disconnected: nothing more is posted to it.
    void mark_gone() noexcept { gone_.store(true, std::memory_order_release); }
    [[nodiscard]] bool gone() const noexcept { return gone_.load(std::memory_order_acquire); }

  private:
    const ConnectionInfo info_;
    const RailSet all_;
    const std::weak_ptr<RailManager> rails_;
    Mutex mutex_;
    std::map<std::pair<std::uint16_t, std::uint16_t>, PeerEndpoint> resolved_ ABSL_GUARDED_BY(mutex_);
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
