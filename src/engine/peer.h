// A peer: one instance of an agent, and its endpoints as our rails address them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "engine/address_list.h"
#include "engine/introduction.h"
#include "engine/message_ids.h"
#include "engine/metadata.h"
#include "engine/peer_report.h"
#include "engine/peer_traffic.h"
#include "fabric/lock_rescue.h"
#include "fabric/peer_process.h"
#include "manager/lane_plan.h"
#include "manager/rail_manager.h"
#include "rail/path.h"

namespace railyard {

/// Control messages travel between the first rails.
inline constexpr RailPair control_pair{0, 0};

/// Where a control message goes.
struct ControlRoute {
    Rail* rail = nullptr;
    PeerAddress address = no_address;
    Path* path = nullptr;
};

/// One rail of a peer as one of ours reaches it. There is one for each pair of rails towards each peer, so it
/// is kept small.
struct PeerEndpoint {
    RailPair pair;
    std::uint32_t announced =
        0;  ///< generation of our sender in the latest HELLO; guarded by the peer's mutex
    PeerAddress address = no_address;
    Rail* rail = nullptr;  ///< ours
    Path path;
    // Bits, as a process may have millions of these.
    bool probing : 1 = false;            ///< guarded by the peer's mutex, as all that follows
    bool ask_again : 1 = false;          ///< once it is not being asked any more
    bool confirmed : 1 = false;          ///< a probe has failed, too
    bool introduced_before : 1 = false;  ///< it has acknowledged a sender of ours
    bool may_be_held_up : 1 = false;     ///< something failed there since our sender was replaced for a probe
    bool excused : 1 = false;            ///< the last probe was lost, and the next one takes its place
    std::uint16_t probe_pause_ms = 0;
    std::uint64_t probe_at = 0;     ///< ns, once it has failed
    std::uint64_t asked_at = 0;     ///< ns, by the last probe, or the first that it takes the place of
    std::uint64_t answered_at = 0;  ///< ns

    /// For a control message over it.
    [[nodiscard]] ControlRoute route() noexcept { return {rail, address, &path}; }
};

static_assert(sizeof(PeerEndpoint) <= 72, "256 bytes a pair are promised, and malloc rounds up");

struct DueKeepalive {
    PeerEndpoint* endpoint;  ///< nullptr: none is due
    bool is_first;           ///< nothing has been heard of the peer yet
};

/// Shared by the peer table and the transfers and messages towards it. Gives its addresses back to the rails
/// when it goes, where they still exist and are this process's; so the last reference must not be dropped
/// with a rail's role held. Any thread.
class Peer {
  public:
    /// `ids`: of messages to this instance.
    Peer(const ConnectionInfo& info, const std::shared_ptr<RailManager>& rails,
         std::shared_ptr<MessageIds> ids);
    ~Peer();
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    [[nodiscard]] const std::string& agent() const noexcept { return agent_; }
    [[nodiscard]] std::uint64_t nonce() const noexcept { return nonce_; }
    [[nodiscard]] std::size_t rail_count() const noexcept { return addresses_.size(); }
    /// Of its rails. Throws std::bad_alloc.
    [[nodiscard]] std::vector<std::string> addresses() const { return addresses_.unpacked(); }
    [[nodiscard]] bool has_rails(const std::vector<std::string>& addresses) const noexcept {
        return addresses_ == addresses;
    }

    /// What it is reached by within its host.
    [[nodiscard]] bool is_on_host_at(const std::string& address) const noexcept {
        return host_address_ == address;
    }
    /// As far as anybody has said.
    [[nodiscard]] bool is_same_instance(const Peer& other) const noexcept {
        return nonce_ == other.nonce_ && agent_ == other.agent_ && addresses_ == other.addresses_;
    }

    /// For a message to it that was not sent before.
    std::uint64_t next_message_id() noexcept { return ids_->next(); }
    /// For an eager WRITE or READ to it that was not sent before.
    std::uint64_t next_eager_id() noexcept { return ids_->next_eager(); }

    /// Its notifications that leave together with their data.
    [[nodiscard]] EarlyWindow& early() noexcept { return ids_->early; }

    /// The same instance, of which nothing has been learned yet.
    [[nodiscard]] std::shared_ptr<Peer> anew() const;

    /// The peer's rail as our rail of the pair addresses it, resolved on first use. Stays where it is for the
    /// peer's life. Throws Error.
    PeerEndpoint& resolve(RailPair pair);

    /// Its process as our host rail reaches it, found out at the first call, or where we were short of
    /// something at a later one; nullptr: it does not. Stays where it is for the peer's life.
    PeerEndpoint* on_this_host();

    /// Over the control pair, or another one that has been resolved where that has failed. Only after
    /// resolve(control_pair), which has to wait for others. Never waits.
    [[nodiscard]] ControlRoute control_route() const noexcept {
        return control_.load(std::memory_order_acquire)->route();
    }
    [[nodiscard]] bool has_control_route() const noexcept {
        return control_.load(std::memory_order_acquire) != nullptr;
    }
    /// Chooses anew, among pairs that have not failed. False: all have, or cannot be resolved, and the route
    /// stays. Resolves pairs, so not with a rail's role held; throws std::bad_alloc.
    bool choose_control_route();
    /// The same where the one that there is has failed.
    void leave_failed_control_route() {
        if (has_control_route() && control_route().path->failed()) choose_control_route();
    }

    /// The peer has to know our senders before anything is posted to it.
    [[nodiscard]] bool needs_introduction() const noexcept { return needs_introduction_; }
    /// The peer will have to reach us, whatever the provider wants: it gets our addresses.
    void require_introduction();
    /// True while pairs are resolved that the peer has not acknowledged.
    [[nodiscard]] bool unacquainted() const noexcept {
        return unacquainted_.load(std::memory_order_relaxed) != 0;
    }
    /// Pairs to announce to the peer now: new ones, and all that it has not acknowledged for a while.
    std::vector<IntroducedPair> take_unannounced(std::uint64_t now_ns);
    /// What was to be announced has not been sent.
    void announce_again() noexcept;
    /// The peer knows our senders on these. Nothing, where it did not have to.
    void introduced(std::span<const IntroducedPair> pairs);
    /// It answers nothing, and may have forgotten who we are: at the next look it is to be told once more,
    /// and what it has acknowledged stays so meanwhile.
    void doubt_introduction() noexcept { doubted_.store(true, std::memory_order_relaxed); }
    /// Looks which of our senders have been replaced since: those are to be announced again.
    /// True where the peer was told of one that has gone, or has forgotten it.
    bool look_at_senders();
    /// The peer will send from there to our rail, and no more from where it said before. Throws Error.
    void admit(RailPair ours_first, std::uint32_t generation, const std::string& sender);
    /// What the other one, of the same instance, was told of its senders is known here from then on, and no
    /// more there. Where there is no memory for it, it is lost.
    void take_senders(Peer& other) noexcept;
    struct Asker {
        const Rail* rail = nullptr;  ///< ours, whose peer it is
        PeerAddress address = no_address;
        std::uint64_t removals = 0;  ///< as in OutMessage
    };
    /// The sender that it said it has for the rails of its control route; no_address: none, or nothing.
    [[nodiscard]] Asker asks_from();

    /// Replaced by a newer instance, or disconnected: nothing more is posted to it.
    void mark_gone() noexcept {
        gone_.store(true, std::memory_order_release);
        move_to(PeerState::gone);
    }
    /// For good; else a peer that is gone may still come back.
    [[nodiscard]] bool gone() const noexcept { return gone_.load(std::memory_order_acquire); }

    [[nodiscard]] PeerState state() const noexcept { return state_.load(std::memory_order_acquire); }
    /// Logs the change; false where there is none.
    bool move_to(PeerState state) noexcept;

    /// Without traffic.
    [[nodiscard]] PeerReport report() const;
    /// Made at the first call; stays where it is for the peer's life. Throws std::bad_alloc.
    PeerLatencies& measured();
    /// nullptr: nobody has called measured() yet.
    [[nodiscard]] PeerLatencies* latencies() const noexcept {
        return latencies_.load(std::memory_order_acquire);
    }
    /// Adds what its paths have counted.
    void report_paths(PeerTrafficReport& report) const;
    /// What it takes, in rails and pairs of rails: some 100 to 250 bytes each.
    [[nodiscard]] std::size_t weight() const;

    struct Health {
        std::size_t paths = 0;    ///< that have been resolved
        std::size_t failed = 0;   ///< of them
        std::size_t dead = 0;     ///< of these; a probe has failed, too
        std::size_t overdue = 0;  ///< that have not failed, and where a probe has not been answered in time
    };
    /// Adds what is to be probed now: paths whose time has come, and all others when one has just failed.
    /// Each is told of through probed().
    Health look_at_paths(std::uint64_t now_ns, std::uint64_t patience_ns,
                         std::vector<PeerEndpoint*>& to_probe);
    /// Where messages keep their order, one that failed holds up all that follow it. Adds the rails with a
    /// probe that has waited for `limit_ns` since: their senders are to be replaced. Once for each failure.
    void find_held_up(std::uint64_t now_ns, std::uint64_t limit_ns, std::vector<Rail*>& rails);
    /// Transfers do not get on, and nobody says why. Every path is asked; those that have not answered for
    /// `limit_ns`, while another one has that was asked no earlier, fail, and what is under way on them is
    /// interrupted.
    void compare_paths(std::uint64_t now_ns, std::uint64_t limit_ns, std::vector<PeerEndpoint*>& to_probe);
    /// At the next look all paths are asked, and those again that are being asked.
    void ask_all();
    [[nodiscard]] bool is_to_be_asked() const;
    /// Some path has failed.
    [[nodiscard]] bool has_failures() const;
    /// A message over some path has not been answered for long.
    [[nodiscard]] bool has_doubts() const;
    /// A probe was answered after `since_ns`.
    [[nodiscard]] bool has_answered(std::uint64_t since_ns) const;
    /// What is under way to it is carried out again. False: its rails cannot interrupt anything.
    bool renew_senders();
    /// It is asked for while it does not answer: probed no less often than at first, until the next look.
    void want_back() noexcept { wanted_back_.store(true, std::memory_order_relaxed); }
    /// Nothing has come of anything that was sent to it.
    void fail_all();
    /// Its process has ended, where that can be seen, or is ours and it was closed there. One caller at a
    /// time.
    [[nodiscard]] bool look_at_process();
    /// Whose process has ended: what is under way to it ends, too, as it is given back by its rails, and goes
    /// out again unless its transfer has been stopped. Not with a rail's role held.
    void abandon();
    /// On this host, and transfers get to it past the fabric.
    [[nodiscard]] bool is_there_on_host() const {
        const MutexLock lock(mutex_);
        return on_host_ && !on_host_->path.failed() && on_host_->rail->reaches(on_host_->address);
    }
    /// Every pair of rails there is. Throws Error where some cannot be, once the others have been; not with a
    /// rail's role held.
    void resolve_all();
    /// What to probe although nothing has failed, because the peer has been silent.
    /// `known_alone`: only where it has been reached before; else the way there may only take its time.
    DueKeepalive due_keepalive(std::uint64_t now_ns, std::uint64_t interval_ns, bool known_alone);
    /// `confirms`: that it was not answered is the second opinion on a path that has failed.
    void probed(PeerEndpoint& endpoint, bool answered, bool confirms, std::uint64_t now_ns);
    /// The probe said nothing: the next look has it probed again.
    void probe_again(PeerEndpoint& endpoint, std::uint64_t now_ns);
    /// The probe was lost with its sender: probed again, unless that has gone on for so long. False: it has.
    [[nodiscard]] bool excuse(PeerEndpoint& endpoint, std::uint64_t now_ns, std::uint64_t patience_ns);

    PeerTraffic traffic;
    std::atomic<std::uint32_t> handles{0};  ///< transfers that have been prepared and not been freed
    std::atomic<bool> reached{false};       ///< a transfer to it has succeeded
    std::atomic<std::uint16_t> served{0};   ///< rounds that it asked for and that ended well; wraps
    /// Of the engine's watch, which runs once at a time.
    struct {
        std::uint32_t listed_in = 0;    ///< the last look that has it among those to look after
        std::uint32_t seen_freed = 0;   ///< transfers, in the last look
        std::uint64_t moved_at = 0;     ///< ns; when a transfer in flight last got on
        std::uint64_t stuck_since = 0;  ///< ns; when the one that has not for longest did
        bool excused : 1 = false;       ///< since then: nobody had looked for long
        bool reconnected : 1 = false;   ///< since it has been silent, where connections are dead
        bool in_flight = false;
        bool was_in_flight = false;
        bool moves_for_us = false;       ///< what we asked it for
        std::uint32_t failed_paths = 0;  ///< that were told of
        /// Of all transfers there have been, by Work::Kind; while a report is made.
        std::uint64_t transfers[2] = {0, 0}, bytes[2] = {0, 0};

        void move(std::uint64_t now_ns) noexcept {
            moved_at = now_ns;
            excused = false;
        }
        /// Somebody looks again after long: whatever the peer has done meanwhile may not be seen yet. Once
        /// until something moves it is as if the last thing had moved three quarters of its time ago.
        bool excuse(std::uint64_t now_ns, std::uint64_t patience_ns) noexcept {
            if (!in_flight || excused || now_ns - moved_at <= patience_ns / 4) return false;
            moved_at = std::max(moved_at, now_ns - patience_ns / 4 * 3);
            return excused = true;
        }
    } watched;

  private:
    /// Where there was anything.
    void log_totals() const noexcept;
    void count_unacquainted() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    /// Where that was put off.
    void watch_process() noexcept;
    /// Nobody would tell, and what is sent to it stays there.
    [[nodiscard]] bool has_ended_unseen() const noexcept;
    [[nodiscard]] bool waits_to_close() const;
    /// The endpoint, which a probe is sent to now.
    static PeerEndpoint& ask(PeerEndpoint& endpoint, std::uint64_t now_ns) noexcept;

    using Endpoints = std::vector<std::unique_ptr<PeerEndpoint>>;
    /// Where the pair is in `resolved_`, or belongs.
    Endpoints::iterator place_of(RailPair pair) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

    const std::string agent_;
    const std::uint64_t nonce_;
    const AddressList addresses_;  // of its rails
    const RailSet all_;
    const std::weak_ptr<RailManager> rails_;
    const std::shared_ptr<MessageIds> ids_;
    std::atomic<bool> needs_introduction_;  // written under the mutex
    fabric::PeerProcess process_;           // changed in look_at_process() alone
    fabric::LockRescue lock_rescue_;        // likewise
    const std::string host_address_;        ///< of its host rail; empty: it has none
    mutable Mutex mutex_;
    bool looked_for_on_host_ ABSL_GUARDED_BY(mutex_) = false;  ///< for good
    bool told_of_shortage_ ABSL_GUARDED_BY(mutex_) = false;
    std::uint32_t looked_on_host_at_ ABSL_GUARDED_BY(mutex_) = 0;    ///< in host_look_ticks, while short
    std::unique_ptr<PeerEndpoint> on_host_ ABSL_GUARDED_BY(mutex_);  ///< none until then, nor where it is not
    Endpoints resolved_ ABSL_GUARDED_BY(mutex_);                     // by pair
    std::uint64_t announced_at_ ABSL_GUARDED_BY(mutex_) = 0;         // ns
    struct Admitted {
        RailPair pair;  ///< ours first
        std::uint32_t generation = 0;
        PeerAddress address = no_address;
    };
    using Senders = std::vector<Admitted>;
    /// Where the pair is in `admitted_`, or belongs.
    Senders::iterator sender_at(RailPair ours_first) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    Senders admitted_ ABSL_GUARDED_BY(mutex_);     // senders that our rails were told of, by pair
    std::atomic<std::uint32_t> unacquainted_{0};   // written under the mutex
    std::atomic<PeerEndpoint*> control_{nullptr};  // written under the mutex
    std::atomic<bool> gone_{false};
    std::atomic<bool> wanted_back_{false};
    std::atomic<bool> doubted_{false};
    std::atomic<PeerState> state_{PeerState::unknown};
    std::unique_ptr<PeerLatencies> owned_latencies_ ABSL_GUARDED_BY(mutex_);
    std::atomic<PeerLatencies*> latencies_{nullptr};       // written under the mutex
    bool ask_all_ ABSL_GUARDED_BY(mutex_) = false;         // a probe has failed since the last look, or so
    std::uint64_t pinged_at_ ABSL_GUARDED_BY(mutex_) = 0;  // ns
};

/// Known peers by agent name. Any thread.
class PeerTable {
  public:
    /// Adds or replaces; the same instance again changes nothing. Returns what was replaced, if anything.
    std::shared_ptr<Peer> put(std::shared_ptr<Peer> peer);
    /// nullptr for an agent that is not known.
    [[nodiscard]] std::shared_ptr<Peer> find(const std::string& agent) const;
    std::shared_ptr<Peer> remove(const std::string& agent);
    /// Replaces what is in `peers`.
    void list(std::vector<std::shared_ptr<Peer>>& peers) const;

  private:
    mutable Mutex mutex_;
    std::map<std::string, std::shared_ptr<Peer>> peers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace railyard
