// The request handle: a planned transfer that can be posted again and again.
#pragma once

#include <atomic>
#include <cstdint>
#include <forward_list>
#include <memory>
#include <utility>
#include <vector>

#include "engine/eager_sender.h"
#include "engine/early_inquiries.h"
#include "engine/engine.h"
#include "engine/forward_rail.h"
#include "engine/key_inquiries.h"
#include "engine/notification.h"
#include "engine/peer.h"
#include "engine/start_control.h"
#include "manager/registration.h"
#include "rail/work.h"

namespace railyard {

/// What follows the data of a WRITE where the peer has to act before its GPU sees it. A chunk stands for each
/// of the route's remote regions, so that requests of the usual size name them all.
struct RemoteFlush : Work {
    RemoteFlush(Transfer& owner, Route over);
    void start() noexcept;

    Transfer& transfer;
    const Route route;
    Submission submission;
};

/// Everything is allocated when the transfer is prepared. Between post() and the end of the round the rails
/// work on it (through Work); otherwise it belongs to its caller. The engine owns it and links it into its
/// list of transfers.
class Transfer : public Work {
  public:
    std::shared_ptr<Peer> peer;  ///< set by aim_at(); nullptr: a transfer to ourselves
    std::vector<std::shared_ptr<Registration>> locals;
    std::vector<std::shared_ptr<RemoteRegion>> remotes;
    std::vector<Route> routes;            ///< lane after lane
    std::vector<Submission> submissions;  ///< by route
    struct RouteRange {
        std::uint32_t begin = 0;
        std::uint32_t end = 0;
        bool host_first = false;  ///< the first stays within the host, and carries all of it while it can
    };
    std::vector<RouteRange> lane_routes;  ///< by lane
    std::uint64_t total_bytes = 0;
    /// Something follows the last byte of a round.
    [[nodiscard]] bool has_tail() const noexcept {
        return has_notification || start_control || !late_gpus.empty() || remote_flush;
    }

    std::vector<std::unique_ptr<Forwarding>> forwardings;  ///< of the routes to peers that move the bytes
    std::forward_list<ImportPtr> mapped;  ///< memory of peers that copies by a GPU of ours go to
    std::vector<Gpu*> late_gpus;          ///< of ours, that see what NICs wrote only after a flush
    std::unique_ptr<RemoteFlush> remote_flush;
    bool may_be_eager = false;          ///< its rounds may be messages, if they fit
    bool eagerly = false;               ///< this round is
    std::unique_ptr<EagerRound> eager;  ///< made before the first of them

    bool may_be_early = false;            ///< its notification may leave together with the data
    bool early = false;                   ///< this round's does, as one more of its parts
    std::uint64_t early_id = 0;           ///< of this round's notification, if it is early
    EarlyInquiries* inquiries = nullptr;  ///< set before the first round that is
    /// About chunks whose operations are not to be repeated without. Nearly always there is none.
    struct Asked {
        Mutex mutex;
        std::vector<std::pair<std::uint32_t, std::shared_ptr<EarlyInquiry>>> about ABSL_GUARDED_BY(mutex);
    } asked;

    KeyInquiries* key_inquiries = nullptr;  ///< with `renews`
    /// Chunks that had another key once theirs was refused, and before them the round they are of.
    std::atomic<std::uint64_t> renewed{0};

    bool has_notification = false;
    OutNotification notification;
    NotificationInbox* own_inbox = nullptr;  ///< for transfers to ourselves
    const std::string* own_agent = nullptr;
    std::uint64_t own_nonce = 0;

    StartControl* start_control = nullptr;  ///< nullptr: a post starts at once

    /// It is carried out again for silence. False: it has been so `most` times in this round.
    bool count_renewal(std::uint8_t most) noexcept {
        if (std::exchange(renewed_post, seen_posted) != seen_posted) renewals = 0;
        if (renewals == most) return false;
        ++renewals;
        return true;
    }

    std::atomic<bool> started{false};      ///< handed to the rails, in this round
    std::uint32_t seen_left = UINT32_MAX;  ///< parts, when the engine's watch last looked
    std::uint32_t seen_ended = 0;          ///< ended_well at that time; wraps
    std::uint64_t seen_posted = 0;         ///< ns; posted_at at that time
    std::uint64_t renewed_post = 0;        ///< `posted_at` of what was carried out again for silence
    std::uint8_t renewals = 0;             ///< how often it was, in that round
    std::uint64_t moved_at = 0;            ///< ns; when the watch last saw it get on
    bool posted = false;
    bool of_peer = false;  ///< a peer has asked for it, and named the registrations
    /// How the round has ended, once that has been seen: who stops it then comes too late. in_progress: it
    /// has not been seen, or has not ended. Says nothing else of the round: who asks has looked whether it is
    /// done.
    std::atomic<Status> ended_with{Status::ok};
    bool exact = false;                        ///< posted_at is, so that this round is measured
    std::atomic<std::uint64_t> posted_at{0};   ///< ns; else any other than before
    PeerLatencies* latencies = nullptr;        ///< nullptr: nobody wants to know
    std::atomic<std::uint64_t> ended_well{0};  ///< rounds, whose ends have been seen; the caller's to write
    std::uint64_t checked_epoch = 0;  ///< of the engine's registrations, when `locals` were last looked at
    std::atomic<std::uint32_t> polls{0};  ///< roughly, where several threads poll it
    /// The thread that posted it on rails of its own alone: of the others, its polls leave out what other
    /// threads keep. no_thread: there is none.
    std::atomic<ThreadTag> keeps_to{no_thread};
    bool retired = false;          ///< released in flight; guarded by the list's lock
    std::uint32_t waited_for = 0;  ///< a round that outlasted a deregistration; the same
    Transfer* previous = nullptr;  // the engine's list
    Transfer* next = nullptr;

    Transfer() { keeps_memory = keep_memory; }
    ~Transfer() {
        if (start_control) start_control->gone(*this);
        if (peer) peer->handles.fetch_sub(1, std::memory_order_relaxed);
    }

    /// At most once; without it, it is a transfer to ourselves. `measured`: somebody wants to know how long
    /// it takes. Throws std::bad_alloc.
    void aim_at(std::shared_ptr<Peer> target, bool measured) {
        if (measured) latencies = &target->measured();
        peer = std::move(target);
        peer->handles.fetch_add(1, std::memory_order_relaxed);
    }
    /// Nobody has asked yet how the round has ended, or whether.
    [[nodiscard]] bool uncounted() const noexcept {
        return ended_with.load(std::memory_order_relaxed) == Status::in_progress;
    }
    /// Of a round that is done: it has ended so. False: another thread was first, and has said how. What a
    /// peer asked for is counted there.
    bool count_end(Status status) noexcept {
        Status seen = Status::in_progress;
        if (!ended_with.compare_exchange_strong(seen, status, std::memory_order_relaxed)) return false;
        if (status == Status::ok) {
            ended_well.store(ended_well.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        } else if (peer && !of_peer) {
            peer->traffic.count_error(status);
        }
        return true;
    }
    /// For good, with what only a fabric carries. Between rounds.
    void leave_host() noexcept;
    /// Leaves its counts to its peer: it is about to be freed.
    void leave_counts() noexcept;
    /// Has every rail that may have operations of it under way give them up: they end soon, and touch no
    /// memory from then on.
    void interrupt() noexcept;
    /// Ends the unposted rest of the round with `status`.
    void end_early(Status status) noexcept {
        stop(status);
        if (start_control) start_control->stopped(*this);
    }
    /// The same of that round, if it is still under way. False: it is not, or has failed already.
    bool end_early(Status status, std::uint32_t of_round) noexcept {
        if (!stop(status, of_round)) return false;
        if (start_control) start_control->stopped(*this);
        return true;
    }

    /// Lets GPUs see the data, then finish_data(). Work's tail.
    static void finish_round(Work& work) noexcept;
    /// Sends the notification, or ends the tail part at once after an error.
    void finish_data() noexcept;
    /// Where this round's notification is early: it is that no more. One that has failed may have left half
    /// of what it was at the peer.
    void end_early_round() noexcept {
        if (!std::exchange(early, false)) return;
        if (status() != Status::ok) give_up_early_round();
        peer->early().end();
    }
    /// Where it is, and nothing of the round has been sent.
    void take_back_early_round() noexcept {
        if (std::exchange(early, false)) peer->early().take_back(notification.marks.operations);
    }
    /// One has failed.
    void give_up_early_round() noexcept;
    /// Asks the peer what has become of an operation of the early round.
    static Verdict may_repeat_early(Work& work, std::uint32_t chunk) noexcept;
    /// Asks the peer which keys its memory has now. Work's renews.
    static Verdict renew_keys(Work& work, const Refusal& refusal) noexcept;
    /// Work's keeps_memory.
    static std::unique_ptr<KeptMemory> keep_memory(const Work& work, Run chunks, const Route& route,
                                                   KeptAs as) noexcept;
    void send_notification() noexcept;
    static void on_notified(OutMessage& message, Status status) noexcept;
    [[nodiscard]] Verdict take_present_key(const Refusal& refusal, RemoteRegion& region) noexcept;
    /// False: it has had so many that another one will not do either.
    [[nodiscard]] bool may_renew_again() noexcept;
    [[nodiscard]] bool uses(const Registration& region) const noexcept;
    [[nodiscard]] bool revoked() const noexcept;
};

}  // namespace railyard
