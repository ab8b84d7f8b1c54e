// The engine's inside. engine.cpp forwards to it; its methods are spread over memory, peers, transfers and
// control.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "common/process_barrier.h"
#include "common/recent_table.h"
#include "engine/callers.h"
#include "engine/eager_sender.h"
#include "engine/eager_target.h"
#include "engine/early_inquiries.h"
#include "engine/engine.h"
#include "engine/forward_rail.h"
#include "engine/mapped_memory.h"
#include "engine/message_auth.h"
#include "engine/notification.h"
#include "engine/peer.h"
#include "engine/pinned.h"
#include "engine/progress_threads.h"
#include "engine/rail_pace.h"
#include "engine/rail_weights.h"
#include "engine/registrations.h"
#include "engine/served.h"
#include "engine/slot_recovery.h"
#include "engine/stats_file.h"
#include "engine/stats_socket.h"
#include "engine/token_table.h"
#include "engine/transfer.h"
#include "engine/transfer_list.h"
#include "engine/waiting_letters.h"
#include "manager/rail_manager.h"

namespace railyard {

class Engine::Impl final : private RequestSender,
                           private MessageRetry,
                           private Introducer,
                           private ServedTransfers {
  public:
    explicit Impl(EngineConfig config);
    ~Impl();
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    [[nodiscard]] const std::string& agent() const noexcept { return config_.agent_name; }
    [[nodiscard]] const RailManager& rails() const noexcept { return *rails_; }
    [[nodiscard]] const Params& params() const noexcept { return config_.params; }
    [[nodiscard]] Gpus& gpus() noexcept { return rails_->gpus(); }

    // engine_memory.cpp
    std::shared_ptr<Registration> register_memory(std::uint64_t address, std::uint64_t length,
                                                  std::uint64_t device_id, MemoryType type);
    void deregister_memory(const std::shared_ptr<Registration>& region);
    /// By transfers in flight, or that are being made, and by what was given up.
    [[nodiscard]] MemoryUse use_of(const Registration& region) const noexcept;
    [[nodiscard]] bool is_overdue(const Registration& region) noexcept;
    [[noreturn]] void refuse_deregistration(Registration& region);
    void deregister_all() noexcept;
    /// Of one that is revoked and not used. False: somebody else does, or has.
    bool give_back(const std::shared_ptr<Registration>& region) noexcept;
    /// Those that were refused for transfers which have ended since. Of the watch; throws std::bad_alloc.
    void give_back_overdue();
    [[nodiscard]] std::string memory_metadata(const Registration& region) const;
    std::shared_ptr<RemoteRegion> load_remote_memory(const std::string& agent, std::string_view metadata,
                                                     std::uint64_t address, std::uint64_t length);
    std::shared_ptr<RemoteRegion> local_as_remote(const std::shared_ptr<Registration>& region);
    /// Other registrations of the memory of these, pinned. Throws Error where one has none.
    void find_others(Replacements& others, Pinned& pinned);
    /// A transfer whose round is over, and of whose own memory some was deregistered, has what is registered
    /// there now. False: some is not, or a peer has named what it wants.
    bool use_other_registrations(Transfer& transfer) noexcept;

    // engine_control.cpp
    [[nodiscard]] std::string connection_info() const { return encode(own_connection_info()); }
    void load_connection_info(const std::string& agent, std::string_view info);
    void connect(const std::string& agent);
    void disconnect(const std::string& agent);
    [[nodiscard]] std::vector<PeerReport> peers() const;  // engine_statistics.cpp
    void take_notifications(std::vector<Notification>& out);
    bool look_for_notifications() noexcept;
    [[nodiscard]] bool has_notifications() const noexcept { return !inbox_.empty(); }
    void hear_immediates(fabric::ImmediateSink& sink) noexcept { inbox_.pass_immediates_to(&sink); }
    void send_notification(const std::string& agent, std::string_view message);
    bool progress() noexcept {
        const bool worked = progress_rails();
        return progress_rest() || worked;
    }
    bool progress_rails() noexcept;
    bool progress_rest() noexcept;
    void catch_up(std::uint64_t limit_ns) noexcept;
    /// Of a caller; like progress() and progress_rails().
    bool make_pass() noexcept {
        callers_.mine().count_pass();
        return progress();
    }
    bool make_rails_pass() noexcept {
        callers_.mine().count_pass();
        return progress_rails();
    }
    void set_chore(EngineChore* chore, ChoreTime time) noexcept;
    void set_chore_time(ChoreTime time) noexcept { chore_time_.store(time, std::memory_order_relaxed); }

    // engine_transfer.cpp
    Transfer* prepare(Operation operation, std::span<const LocalDescriptor> local,
                      std::span<const RemoteDescriptor> remote, const std::string& agent,
                      std::optional<std::string_view> notification);
    /// Without a `notification`, the one before is kept or not.
    Status post(Transfer& transfer, const std::string* notification, bool keeps_last = true) noexcept;
    std::uint64_t epoch_of_post() noexcept;
    bool has_lost_memory(const Transfer& transfer) noexcept;
    void arm_round(Transfer& transfer) noexcept;
    void start(Transfer& transfer) noexcept;
    bool by_weight() noexcept;
    bool carry_immediates(Transfer& transfer, std::size_t descriptors, std::uint32_t first) noexcept;
    Status poll(Transfer& transfer) noexcept;
    Status look(Transfer& transfer) noexcept;
    void release(std::span<Transfer* const> transfers) noexcept;
    [[nodiscard]] CostEstimate estimate(const Transfer& transfer) const noexcept;  // engine_statistics.cpp

  private:
    [[nodiscard]] bool is_self(const std::string& agent) const noexcept {
        return agent == config_.agent_name;
    }
    /// Throws Error{not_found} naming the agent and the remedy.
    [[nodiscard]] std::shared_ptr<Peer> require_peer(const std::string& agent) const;

    // engine_layout.cpp
    struct Way;
    struct Layout;
    /// `serving`: for a peer that asked, with the staging buffers that are kept for that.
    void lay_out(Transfer& transfer, std::span<const Piece> pieces, bool serving);
    void add_lanes(const Layout& layout, std::span<const Piece> pieces, Way way);
    void add_direct_lane(const Layout& layout, const LanePlan& plan, Way way);
    std::vector<Route> direct_routes(const Layout& layout, const LanePlan& plan, Way way, std::size_t count);
    void note_undivided(Lane& lane, std::uint64_t bytes) const noexcept;
    std::optional<Route> host_route(const Transfer& transfer, std::uint64_t bytes);
    Route forward_route(const Layout& layout, Way way);
    void lay_out_anew(Transfer& transfer, std::span<const std::shared_ptr<Registration>> locals) noexcept;
    Route route_by_request(Transfer& transfer, std::unique_ptr<Forwarding> forwarding);
    void note_gpus(Transfer& transfer);

    // engine_eager.cpp
    /// Bytes up to which WRITEs and READs are messages, notification included; 0: none is.
    [[nodiscard]] std::uint64_t eager_limit() const noexcept {
        return rails_->connects() ? config_.params.eager_limit : 0;
    }
    [[nodiscard]] bool takes_eager(const Registration& region) const noexcept;
    [[nodiscard]] bool may_be_eager(const Transfer& transfer) const noexcept;
    /// This round, or the next one, does.
    [[nodiscard]] bool fits_message(const Transfer& transfer) const noexcept;
    /// The peer hears of us, because it has to answer. Throws std::bad_alloc.
    void make_eager(Transfer& transfer);
    bool goes_eagerly(Transfer& transfer) noexcept;
    void on_eager(const Letter& letter);
    void introduce_soon() noexcept override;

    // engine_early.cpp
    [[nodiscard]] bool may_be_early(const Transfer& transfer) const noexcept;
    /// This round's notification leaves together with its data, whose immediate data is set.
    bool goes_early(Transfer& transfer) noexcept;
    void ask_for_number(const std::shared_ptr<Peer>& peer) noexcept;
    void on_number_wanted(const Letter& letter);
    EarlyNotices::Number number_for(const Letter& letter, std::uint32_t old);
    void on_number(const Letter& letter);
    void send_inquiries() noexcept;
    void on_mark_asked(const Letter& letter);
    void on_mark_answer(const Letter& letter);
    void tell_credits() noexcept;
    void on_credit(const Letter& letter);

    // engine_keys.cpp
    void let_keys_be_renewed(Transfer& transfer) noexcept;
    void send_key_inquiries() noexcept;
    void on_keys_asked(const Letter& letter);
    void on_keys(const Letter& letter);
    [[nodiscard]] KeyTable present_keys(const KeyQuestion& question);

    void ready_notification(Transfer& transfer);
    Status check_postable(Transfer& transfer) noexcept;
    Status finished(Transfer& transfer) noexcept;
    void cancel(std::span<Transfer* const> transfers) noexcept;
    void progress_for(Transfer& transfer) noexcept;
    void wake() noexcept;
    [[nodiscard]] std::vector<ProgressThreads::Part> parts_of_threads() const;
    /// What is to be done in each pass besides the rails; true: there is more to come that no rail tells of.
    bool run_chores() noexcept;
    bool run_chore() noexcept;
    bool run_chore_now() noexcept;

    [[nodiscard]] ConnectionInfo own_connection_info() const;
    /// Sends a message that belongs to no transfer; it frees itself.
    void send_own(const std::shared_ptr<Peer>& peer, MessageKind kind, std::string text);
    /// The same where a rail's role may be held.
    /// `patience_ns`: with a provider that does not take it; 0: the rail's.
    void queue_own(const std::shared_ptr<Peer>& peer, MessageKind kind, std::string text,
                   std::uint64_t patience_ns = 0);

    // engine_introduction.cpp
    /// Tells the peer of our rails where it must know them and does not yet.
    void introduce(const std::shared_ptr<Peer>& peer);
    /// The same on the way of a post, where nothing may be thrown.
    void introduce_again(const std::shared_ptr<Peer>& peer) noexcept override;
    void handle_letters() noexcept;
    void handle_each(Letters& letters) noexcept;
    void handle_or_refuse(Letters& one) noexcept;
    void keep_until_introduced(Letters& one);
    void handle_waiting(std::uint64_t nonce) noexcept;
    void handle(const Letter& letter);
    void on_hello(const Letter& letter);
    /// All that its HELLO says, or up to the first that is refused. Throws Error.
    void meet(Peer& peer, std::span<const IntroducedPair> pairs);
    void on_acknowledgement(const Letter& letter);
    /// Whoever introduces itself so: known to our application, or a stranger. Throws Error{mismatch}.
    std::shared_ptr<Peer> introduced_peer(const ConnectionInfo& info);
    std::shared_ptr<Peer> stranger_of(const ConnectionInfo& info);
    /// A new one, or the stranger that has introduced itself so.
    std::shared_ptr<Peer> peer_of(const ConnectionInfo& info);
    /// After it has named more pairs of rails, if it is a stranger.
    void weigh_stranger(const Peer& peer);
    void forget_stranger(const Peer& old);
    /// Who is about to be disconnected is from then on what it would be if it had never been loaded: over
    /// sockets it does not know that it was forgotten, and goes on with its small transfers. nullptr: it is
    /// forgotten altogether, for want of memory, or as elsewhere, where its operations are refused.
    std::shared_ptr<Peer> stranger_instead_of(const Peer& known) noexcept;
    /// It is not known any more, and that stranger, if any, is what it was.
    void part_from(Peer& old, Peer* stranger) noexcept;
    /// It has just become known, and keeps what it has said as a stranger.
    void end_being_stranger(Peer& known) noexcept;
    /// A stranger that did not answer, and that nobody looks after any more, is met afresh when it asks
    /// again.
    void renew_stranger(const Peer& old);
    void handle_rail_changes() noexcept;
    /// Loaded, or strangers. Throws std::bad_alloc.
    std::vector<std::shared_ptr<Peer>> all_peers();

    // engine_serving.cpp
    void send_request(const std::shared_ptr<Peer>& peer, const Request& request) override;
    /// A peer that was loaded or has introduced itself; nullptr for any other.
    std::shared_ptr<Peer> known_instance(const std::string& agent, std::uint64_t nonce);
    /// The sender of a `what`. Throws Error{mismatch} where nobody is known by that name and number.
    std::shared_ptr<Peer> require_instance(const Letter& letter, const char* what);
    void on_request(const Letter& letter);
    void on_answer(const Letter& letter);
    std::shared_ptr<Registration> memory_of_token(std::uint64_t token);
    Status flush_for(const Request& request);
    /// `late`: outlives the rails' part in it.
    Transfer* serve(const std::shared_ptr<Peer>& peer, Request request, std::atomic<std::uint32_t>& late);
    void answer(const std::shared_ptr<Peer>& peer, std::uint64_t id, Status status);
    /// Answers what is done; true while there is anything to answer.
    bool finish_served() noexcept;
    bool tell_end(Served& served) noexcept;

    /// A message that belongs to no transfer; frees itself.
    struct OwnMessage : OutNotification {
        Impl* engine = nullptr;
        std::shared_ptr<Peer> keep;
        PeerEndpoint* probed = nullptr;     ///< what a PING is to tell of
        std::uint32_t failures_before = 0;  ///< of the path that is probed
        bool confirms = true;               ///< its failure is the second opinion on the path
        Status result = Status::ok;         ///< of a PING
    };
    /// `answers`: the READ that data is for.
    void send_over(const ControlRoute& route, std::unique_ptr<OwnMessage> message,
                   std::uint64_t answers = 0) noexcept;
    static void on_own_message(OutMessage& message, Status status) noexcept;
    /// Throw std::bad_alloc; the second one only where there is no spare one.
    std::unique_ptr<OwnMessage> own_message(const std::shared_ptr<Peer>& peer, MessageKind kind);
    std::unique_ptr<OwnMessage> spare_message(const std::shared_ptr<Peer>& peer, MessageKind kind);
    void free_sent_messages() noexcept;
    void address_to(OwnMessage& message, const std::shared_ptr<Peer>& peer, MessageKind kind);
    void keep_spare(std::unique_ptr<OwnMessage> message) noexcept;

    bool undelivered(OutNotification& message) noexcept override;
    void send_undelivered() noexcept;

    // engine_liveness.cpp
    /// `patience_ns`: with a provider that does not take it.
    void ping(const std::shared_ptr<Peer>& peer, PeerEndpoint& endpoint, std::uint64_t patience_ns);
    void finish_ping(OwnMessage& message) noexcept;
    /// Looks after peers and paths, when it is time. Not with a rail's role held.
    void watch() noexcept;
    /// Has the next pass look, whatever the time. Any thread.
    void watch_soon() noexcept;
    bool look_at_transfers(std::uint64_t now);
    void note_progress(Transfer& transfer, bool in_flight, std::uint64_t now);
    void interrupt_transfer(Transfer& transfer) noexcept override;
    Peer::Health ask_paths(const std::shared_ptr<Peer>& peer, std::uint64_t now, std::uint64_t patience);
    void end_overdue(Transfer& transfer, std::uint32_t round, std::uint64_t now) noexcept;
    bool carry_out_again(Peer& peer);
    void look_at_connections(Peer& peer, std::uint64_t now, bool in_flight);
    void tell_of_paths(Peer& peer, const Peer::Health& health);
    void replace_held_up_senders(Peer& peer, std::uint64_t now);
    void look_for_unanswered(std::uint64_t now) noexcept;
    void end_transfers_to(Peer& peer, bool interrupt);
    void resolve_paths(Peer& peer) noexcept;
    std::uint64_t look_after(const std::shared_ptr<Peer>& peer, std::uint64_t now);
    void keep_alive(const std::shared_ptr<Peer>& peer, std::uint64_t now, bool in_flight, bool asked);
    void look_at_rails(std::uint64_t now);
    [[nodiscard]] std::uint64_t longest_pause() const noexcept;
    [[gnu::cold]] void look_after_all(std::uint64_t now) noexcept;
    [[gnu::cold]] void weigh_rails(std::uint64_t now) noexcept;

    // engine_statistics.cpp
    /// Else nobody can ask how long transfers to peers took, and it is not counted.
    [[nodiscard]] bool tells() const noexcept { return stats_file_ || stats_socket_; }
    LiveReport live_report();
    [[gnu::noinline]] void measure(const Transfer& transfer) noexcept;
    std::uint64_t tell(std::uint64_t now);

    const EngineConfig config_;
    const std::uint64_t nonce_;
    Callers callers_;
    // Written by any thread that prepares, or sends a message, and by each post over uneven rails.
    alignas(cache_line) MessageCounters message_counters_;
    std::atomic<std::uint64_t> next_transfer_{0};
    std::atomic<std::uint32_t> weighted_posts_{0};
    std::atomic<std::uint32_t> messages_in_flight_{0};  ///< that the destructor waits for: no pings
    Mutex spares_mutex_;
    std::vector<std::unique_ptr<OwnMessage>> spares_ ABSL_GUARDED_BY(spares_mutex_);
    // Read with each post and poll, of any thread, and nearly never written.
    alignas(cache_line) std::atomic<bool> uneven_{false};  ///< rails have different weights
    std::atomic<std::uint32_t> seen_changes_{0};           ///< of the rails
    std::atomic<std::uint64_t> next_watch_{0};             ///< ns
    std::atomic<std::uint64_t> next_weighing_{0};          ///< ns
    std::atomic<bool> watching_{false};
    std::uint64_t next_unanswered_look_ = 0;            ///< ns; of who has set watching_
    std::uint64_t looked_at_ = 0;                       ///< ns; the same
    std::uint32_t look_ = 0;                            ///< the same; how many there have been
    bool overslept_ = false;                            ///< the same; nobody had looked for long
    std::uint8_t looks_without_sockets_ = 0;            ///< the same; before sockets are looked at again
    std::vector<std::shared_ptr<Peer>> watched_peers_;  ///< the same
    std::vector<std::shared_ptr<Peer>>
        unlisted_peers_;  ///< the same; those that are in no table, and have transfers in flight
    std::vector<PeerEndpoint*> to_probe_;             ///< the same
    std::vector<Rail*> held_up_;                      ///< the same
    RailPace pace_;                                   ///< the same
    std::vector<RailPace::Look> looks_;               ///< the same
    RailWeights weights_;                             ///< the same
    std::vector<Rail::MeasuredRate> rates_of_rails_;  ///< the same
    std::unique_ptr<StatsFile> stats_file_;           ///< the same; nullptr: nobody wants it
    std::unique_ptr<StatsSocket> stats_socket_;       ///< the same
    MpscList<OutMessage> undelivered_;
    EarlyInquiries inquiries_;
    KeyInquiries key_inquiries_;
    WaitingLetters waiting_letters_;
    std::atomic<EngineChore*> chore_{nullptr};
    std::atomic<ChoreTime> chore_time_{ChoreTime::always};
    std::atomic<std::uint32_t> chore_users_{0};
    /// Grows with every deregistration; a transfer that has seen the current value need not look again.
    std::atomic<std::uint64_t> registration_epoch_{0};
    const bool process_barriers_ = has_process_barrier();
    const MessageAuth auth_{config_.params.cluster_secret};
    alignas(cache_line) NotificationInbox inbox_{{}, nonce_, &auth_};
    EagerTarget eager_target_{inbox_};
    EagerSender eager_sender_{*this};
    /// Sent notifications: freed outside of the rails' roles, because the last one gives its peer back.
    MpscList<OutMessage> sent_messages_;
    // Teardown runs upwards: the thread, the rails (whose endpoints may still write to transfers), then the
    // rest.
    TransferList transfers_;
    Mutex registrations_mutex_;
    Registrations registrations_ ABSL_GUARDED_BY(registrations_mutex_);
    std::atomic<std::size_t> overdue_{0};  ///< of them; written with the mutex
    std::uint64_t last_registration_ ABSL_GUARDED_BY(registrations_mutex_) = 0;
    std::vector<std::uint64_t> registered_bytes_ ABSL_GUARDED_BY(registrations_mutex_);  // by rail
    /// GPU memory, by what peers call it.
    TokenTable tokens_ ABSL_GUARDED_BY(registrations_mutex_);
    PeerTable peers_;
    MappedMemory mapped_memory_;  ///< looked at by who has set watching_
    /// Who introduced itself, by instance: holds their addresses on our rails.
    Mutex strangers_mutex_;
    RecentTable<std::shared_ptr<Peer>> strangers_ ABSL_GUARDED_BY(strangers_mutex_){
        65'536, config_.most_stranger_pairs};
    ServedRequests served_;
    ForwardRail forward_;
    SlotRecovery slot_recovery_{forward_};
    std::shared_ptr<RailManager> rails_;
    ProgressThreads threads_;
};

}  // namespace railyard
