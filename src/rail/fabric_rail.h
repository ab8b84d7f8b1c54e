// A rail over one libfabric endpoint.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "fabric/address_vector.h"
#include "fabric/completion_queue.h"
#include "fabric/domain.h"
#include "fabric/endpoint.h"
#include "fabric/info.h"
#include "fabric/loopback_connections.h"
#include "fabric/unsent_bytes.h"
#include "fabric/wait_set.h"
#include "rail/control_channel.h"
#include "rail/fabric_rail_config.h"
#include "rail/given_up.h"
#include "rail/prompt_looks.h"
#include "rail/rail.h"
#include "rail/rate_meter.h"
#include "rail/roles_at_exit.h"
#include "rail/sweep.h"
#include "rail/waiting_behind.h"

namespace railyard {

class FabricRail final : public Rail {
  public:
    /// What one rail may have outstanding while it shares a striped transfer with others: enough to keep a
    /// fast NIC busy (some ten times what a 400 Gbit/s link has under way in 20 us is 1 MiB), little enough
    /// that a slow one does not sit on chunks.
    static constexpr std::uint32_t striped_operations = 64;
    static constexpr std::uint64_t striped_bytes = std::uint64_t{2} << 20;
    /// Of all peers together. Each may have as much as is left for the others, so that those that do not
    /// answer leave some of it (ADR 43); one alone has most_bytes.
    static constexpr std::uint64_t most_bytes_of_all = 2 * most_bytes;
    /// Each peer's, whatever others have.
    static constexpr std::uint64_t least_bytes = std::uint64_t{1} << 20;
    /// Beyond most_bytes, so that a transfer of some long blocks has several peers at work at once (over shm
    /// they do the copying).
    static constexpr std::uint32_t least_operations = 4;
    /// Of chunks of so many bytes, with fewer than that none of these limits is reached.
    [[nodiscard]] static constexpr std::uint32_t few_chunks_of(std::uint64_t length) noexcept {
        static_assert(least_bytes <= striped_bytes);
        const std::uint64_t few = least_bytes / std::max<std::uint64_t>(length, 1);
        return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(few, 1, striped_operations));
    }
    /// Bytes that each of several transfers may post before it is the next one's turn.
    static constexpr std::int64_t turn_bytes = std::int64_t{256} << 10;
    static constexpr std::size_t completions_per_round = 64;
    /// Chunks up to here share an operation, where the provider lets them: of longer ones the bytes cost more
    /// than the operation.
    static constexpr std::uint64_t grouped_chunk_bytes = std::uint64_t{64} << 10;
    /// Senders whose operations are kept, in case that a provider still tells of replaced ones.
    static constexpr std::size_t kept_generations = 8;
    /// Senders that are set aside at a time, and for how long.
    static constexpr std::size_t most_aside = 4;
    static constexpr std::size_t most_given_up = 16;  ///< of those that nothing more is expected of
    static constexpr std::uint64_t longest_aside_ns = 30'000'000'000;
    static constexpr std::uint32_t present_sender = UINT32_MAX;  ///< instead of an Aside::number

    /// Opens everything; throws Error{backend}. `sink` must outlive the rail.
    FabricRail(std::string name, const std::shared_ptr<const fabric::Device>& device, ControlSink& sink,
               FabricRailConfig config);
    /// Messages that are left end as canceled; operations in flight end without a word.
    ~FabricRail() override;

    RegisteredMemory register_memory(const MemoryRange& range) override;
    void keep_memory(const RegisteredMemory& memory) noexcept override;
    [[nodiscard]] bool reaches_gpu_memory() const noexcept override {
        return fabric_->endpoint.reaches_gpu_memory();
    }
    [[nodiscard]] bool carries_immediates() const noexcept override {
        return fabric_->domain.caps().immediate_data;
    }
    [[nodiscard]] std::uint64_t removals() const noexcept override {
        return removals_.load(std::memory_order_acquire);
    }
    [[nodiscard]] bool tells_of_writes() const noexcept override {
        const fabric::ProviderCaps& caps = fabric_->domain.caps();
        return caps.tells_of_writes || (caps.messages_tell && fabric_->endpoint.emulates_writes());
    }
    [[nodiscard]] std::string address() const override { return fabric_->endpoint.name(); }
    [[nodiscard]] Sender sender() const override;
    /// Has the endpoint that operations leave from replaced, in the next round: what is under way is carried
    /// out again, or ends where its transfer has been stopped, and touches no memory from then on. Any
    /// thread.
    bool request_renewal() noexcept override;
    [[nodiscard]] std::uint64_t max_chunk() const noexcept override;
    [[nodiscard]] int wait_fd() const noexcept override { return fabric_->wait.fd(); }

  private:
    friend struct FabricRailProbe;  // of the tests, which script the provider's answers

    struct Operation : fabric::OpContext {
        FabricRail* rail = nullptr;
        Submission* submission = nullptr;
        Operation* next = nullptr;
        const Chunk* chunk = nullptr;
        std::uint32_t chunks = 1;  ///< it and those behind it
        /// Since it was posted its route has had another key. May be set of one that was posted later.
        bool has_old_key = false;
        std::unique_ptr<GivenUp> given_up;

        [[nodiscard]] std::uint64_t bytes() const noexcept {
            std::uint64_t sum = 0;
            for (std::uint32_t i = 0; i < chunks; ++i)
                sum += chunk[i].length;
            return sum;
        }
    };
    /// A chunk whose operation is over without having done its work.
    struct Returned {
        Submission* submission = nullptr;
        std::uint32_t chunk = 0;
        bool permitted = false;  ///< to be posted again (Work::may_repeat)
        bool key_refused = false;
        std::uint64_t since = 0;       ///< ns
        std::uint64_t waits_from = 0;  ///< ns; or later, by times in which nobody looked
        std::uint64_t key = 0;         ///< that one
        /// Aside::number of the sender that has to be closed before anything is done about it, or
        /// present_sender; 0: none has.
        std::uint32_t behind = 0;
    };
    /// Until what Returned::behind says: a Submission::late that counts one.
    using Late = std::pair<std::uint32_t, std::atomic<std::uint32_t>*>;

    bool post_at_once(Submission& submission) noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool serve(bool drain_first) noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    /// True when a round has nothing to do but to read completions.
    [[nodiscard]] bool is_calm() const noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    PeerAddress do_insert_peer(std::string_view address) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void do_remove_peer(PeerAddress peer) noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    PeerAddress do_admit_sender(std::string_view address) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void do_dismiss_sender(PeerAddress sender) noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void do_abandon_peer(PeerAddress peer) noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void do_look_for_unanswered(std::uint8_t often) noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool may_wait() noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    [[nodiscard]] RailCounters do_count() const noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);

    bool post_pending() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    /// `rests`: its peer is not asked again yet.
    enum class Served { through, waits, rests, rotate, full };
    static bool has_turn(Submission& submission, bool alone) noexcept;
    Served post_run(Submission& submission, bool& posted) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    Served has_enough(Submission& submission) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void put_last(Submission& submission) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    Served refused(Submission& submission, const char* what) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    /// The next `count` of `run`, no more than room(), which moves on behind what the provider has taken. ok:
    /// all of them.
    fabric::PostResult post_chunks(Submission& submission, Run& run, std::uint32_t count) noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    /// The same where an operation may have several.
    fabric::PostResult post_groups(Submission& submission, Run& run, std::uint32_t count) noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    [[gnu::cold, gnu::noinline]] void count_refused() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    [[gnu::cold]] Status count_failed_post() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    [[nodiscard]] std::uint64_t carried_bytes() const noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        return counters_.bytes[0] + counters_.bytes[1];
    }
    [[nodiscard]] std::uint64_t outstanding_bytes() const noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        return posted_bytes_ - carried_bytes();
    }
    [[nodiscard]] std::uint32_t outstanding() const noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        return posted_ - static_cast<std::uint32_t>(counters_.operations[0] + counters_.operations[1]);
    }
    /// Chunks that may be posted: no more than there are free operations, each of which takes at least one.
    [[nodiscard]] std::uint32_t room() const noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        return static_cast<std::uint32_t>(depth_) - outstanding();
    }
    /// Completions that may lie in the queue, and as many again, that come while they are read.
    [[nodiscard]] std::size_t most_unread() const noexcept {
        return 2 * (depth_ + most_with_others_ + most_unread_immediates);
    }
    /// Those of it that the peer on that path may have: no more than it leaves for others, and of the last
    /// ones only one, where it has nothing.
    [[nodiscard]] std::uint32_t room_for(const Path* path) const noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        const std::uint32_t all = room();
        if (!path || all == 0) return all;
        const std::uint32_t has = path->outstanding(), kept = has + kept_for_newcomers_;
        const std::uint32_t limit = std::min(all, static_cast<std::uint32_t>(peer_depth_));
        if (limit <= has) return 0;
        if (all <= kept + 1) return has == 0 ? 1 : 0;
        return std::min(limit - has, (all - kept) / 2);
    }
    /// It has few enough bytes under way for more of that lane.
    [[nodiscard]] bool may_take(const Lane& lane, const Path* path) const noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        const std::uint32_t chunks = path ? path->outstanding() : outstanding();
        return chunks < lane.few || may_take_more(lane, chunks);
    }
    [[nodiscard]] bool may_take_more(const Lane& lane, std::uint32_t chunks) const noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    std::size_t drain(bool all = true) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    [[gnu::noinline]] bool read_events() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void expect_connections() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    [[gnu::cold]] void unpace_connections() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void publish_load() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    template <bool grouped>
    static void on_complete(fabric::OpContext& op, const fabric::Completion& completion) noexcept;

    // fabric_rail_failures.cpp
    void free_operation(Operation& operation, std::uint32_t chunks) noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        operation.next = free_operations_;
        free_operations_ = &operation;
        operation.submission->outstanding -= chunks;
    }
    /// It has ended, and is not among those that ended well.
    void take_from_posted(const Operation& operation) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        posted_ -= operation.chunks;
        posted_bytes_ -= operation.bytes();
        if (Path* const path = operation.submission->route->path) path->count_ended(operation.chunks);
    }
    using Operations = std::vector<Operation>;
    /// Those that are with the provider.
    [[nodiscard]] static std::size_t posted_of(const Operations& operations) noexcept;
    [[nodiscard]] fabric::OpContext::Handler ordinary_handler() const noexcept;
    void use(std::unique_ptr<Operations> operations) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    static Run chunks_of(const Operation& operation) noexcept;
    void give_back(Submission& submission, Run chunks) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void keys_refused(Operation& operation, Run chunks) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    /// True: it goes on being asked about.
    bool awaits_key(Returned& returned) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    [[gnu::cold]] void operation_failed(Operation& operation, const fabric::Completion& completion) noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    [[gnu::cold]] void chunks_failed(Submission& submission, Run chunks, Status status) noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void note_failure(Path& path) noexcept;
    bool settle_failures() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void renew() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void put_renewal_off(const std::exception& error) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    std::unique_ptr<fabric::UnsentBytesDropped> drop_unsent_bytes() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void drain_all() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void take_back() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    /// Where there are slots and addresses for it.
    void start_sender() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void open_sender(std::unique_ptr<Operations> operations) ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool go_elsewhere(const Submission& submission, Run chunks) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    [[nodiscard]] Work::Verdict verdict_on(const Returned& returned) const noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    [[nodiscard]] bool waits_too_long(const Returned& returned) const noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void excuse_returned() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool place_returned() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool post_again(const Returned& returned, PeerSet& refusing) noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    // fabric_rail_frozen.cpp
    void stop_sending() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void freeze() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void reopen() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    // fabric_rail_aside.cpp
    struct Aside;
    struct Opened;
    [[nodiscard]] Aside* aside_of(const Operation& operation) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void note_unsettled() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    [[nodiscard]] std::optional<fabric::AddressVector::Another> addresses_for_another()
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void set_aside() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void hand_over_operations(Aside& aside) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void settle_aside() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void take_back(Aside& aside, bool closed) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    [[nodiscard]] bool waits_for_nothing(Aside& aside) const noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void close_aside(std::size_t place) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void hand_over_returned(std::uint32_t number) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    [[nodiscard]] bool may_set_aside() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    [[nodiscard]] bool no_sender_to_come() const noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    static void on_aside_complete(fabric::OpContext& op, const fabric::Completion& completion) noexcept;
    // fabric_rail_given_up.cpp
    void keep_sender() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void give_up_stopped() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void give_up(Operation& operation, fabric::OpContext::Handler handler) noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool disown(Operation& operation) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void give_up_aside(Aside& aside) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void release_returned(std::uint32_t number, bool closed) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void keep_late(Late late) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void stop_counting() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    static void keep(Operation& operation, Work::KeptAs as) noexcept;
    static void end_late(Operations& operations, bool closed) noexcept;
    void end_late_behind(std::uint32_t number) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    static void on_stopped_complete(fabric::OpContext& op, const fabric::Completion& completion) noexcept;
    static void on_given_up_complete(fabric::OpContext& op, const fabric::Completion& completion) noexcept;
    static void ignore_completion(fabric::OpContext& op, const fabric::Completion& completion) noexcept;
    // fabric_rail_closing.cpp
    /// Does not wait for what never ends.
    static void close_apart(std::shared_ptr<Opened> fabric, std::size_t most_unread) noexcept;
    static void close_when_ended(std::shared_ptr<Opened> fabric, std::size_t most_unread,
                                 bool apart) noexcept;
    static void close_now(std::shared_ptr<Opened> fabric, std::size_t most_unread) noexcept;
    static void keep_open(std::shared_ptr<Opened> fabric, std::atomic<Opened*>& list) noexcept;
    static std::atomic<Opened*> open_for_ever_, without_thread_;  ///< next_open

    /// A sender that is closed once all that it has sent has ended (ProviderCaps::waits_to_close): these
    /// operations stay with their transfers until then.
    struct Aside {
        std::uint32_t number = 0;
        std::uint32_t unended = 0;                  ///< operations
        std::uint64_t until = 0;                    ///< ns
        std::uint64_t next_look = 0, heard_at = 0;  ///< ns; waits_for_nothing
        bool given_up = false;  ///< nothing more is expected of it; closed when it is through after all
        std::unique_ptr<Operations> operations;
        std::vector<PeerAddress> destinations;  ///< of them
        std::unique_ptr<ControlChannel::Aside> messages;
        fabric::Fid<fid_av> addresses;
        std::unique_ptr<fabric::Endpoint> endpoint;
    };

    /// What libfabric may still touch when the rail goes. Teardown runs upwards: the endpoints first.
    struct Opened {
        Opened(const std::shared_ptr<const fabric::Device>& device, const std::string& rail, bool blocking);
        std::unique_ptr<fabric::Endpoint> new_sender();
        /// Operations and messages that have not ended.
        [[nodiscard]] std::size_t unended() const noexcept;
        /// The current ones last; before them those of senders that were replaced, for stray completions.
        std::vector<std::unique_ptr<Operations>> operations;
        std::vector<std::shared_ptr<void>> old_sends;
        std::vector<std::shared_ptr<void>> frozen_operations;  ///< of the senders below
        fabric::Domain domain;
        fabric::CompletionQueues queue;
        fabric::WaitSet wait;
        fabric::AddressVector addresses;
        /// Peers that only send to us, where they are not in `addresses`: what the sender has bound,
        /// `endpoint` cannot bind as well.
        std::unique_ptr<fabric::AddressVector> callers;
        std::unique_ptr<ControlChannel> control;
        fabric::Endpoint endpoint;
        /// Former senders that will wait for a process which has ended for ever, and can neither be closed.
        std::vector<std::unique_ptr<fabric::Endpoint>> frozen;
        std::vector<std::unique_ptr<Aside>> aside;
        std::unique_ptr<fabric::Endpoint> sender;  ///< none: operations leave from `endpoint`
        std::shared_ptr<Opened> itself;            ///< one that stays open for ever
        Opened* next_open = nullptr;
    };
    void publish_sender() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void name_sender() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);

    const FabricRailConfig config_;
    std::shared_ptr<Opened> fabric_;  ///< the same until the rail goes
    /// Where operations leave from; nullptr while there is nothing.
    fabric::Endpoint* sending_ ABSL_GUARDED_BY(role_) ABSL_PT_GUARDED_BY(role_) = nullptr;
    const std::size_t depth_;
    const std::size_t peer_depth_;            ///< of them, towards one peer
    const std::uint32_t kept_for_newcomers_;  ///< of them, one for each that has none yet
    /// Operations that senders which are set aside may have beside as many of the present one.
    const std::size_t most_with_others_;
    const std::size_t pieces_;  ///< of an operation, at most
    ControlChannel* control_ ABSL_PT_GUARDED_BY(role_);
    std::uint32_t rounds_ ABSL_GUARDED_BY(role_) = 0;
    fabric::LoopbackConnections loopback_ ABSL_GUARDED_BY(role_);
    Operation* free_operations_ ABSL_GUARDED_BY(role_) = nullptr;
    /// Ever, but for those that have failed; not beside each other, where g++ 12 adds to both at once in five
    /// instructions more.
    std::uint32_t posted_ ABSL_GUARDED_BY(role_) = 0;  ///< wraps
    /// Submissions, and chunks that are under way from senders that are set aside.
    std::uint32_t waiting_ ABSL_GUARDED_BY(role_) = 0;
    std::uint64_t posted_bytes_ ABSL_GUARDED_BY(role_) = 0;
    RailCounters counters_ ABSL_GUARDED_BY(role_);  ///< without those of control messages
    RateMeter meter_ ABSL_GUARDED_BY(role_);
    PromptLooks prompt_looks_ ABSL_GUARDED_BY(role_);
    PendingList<Submission> pending_ ABSL_GUARDED_BY(role_);
    bool wants_room_ ABSL_GUARDED_BY(role_) = false;  ///< some submission, in the last pass
    bool asks_again_ ABSL_GUARDED_BY(role_) = false;  ///< not all that waits is heard of when something ends
    WaitingBehind waiting_behind_ ABSL_GUARDED_BY(role_);    ///< others of pending_ to the same peer
    Sweep<Submission> sweep_ ABSL_GUARDED_BY(role_);         ///< over pending_
    BlockedSet blocked_ ABSL_GUARDED_BY(role_);              ///< take nothing in this pass
    PeerSet given_up_ ABSL_GUARDED_BY(role_);                ///< what waits behind a transfer ends with it
    std::vector<Returned> returned_ ABSL_GUARDED_BY(role_);  ///< room for all chunks
    std::uint64_t looked_at_returned_ ABSL_GUARDED_BY(role_) = 0;  ///< ns; at any of them
    std::vector<Late> late_ ABSL_GUARDED_BY(role_);
    bool indirect_ ABSL_GUARDED_BY(role_) = false;  ///< some peer's memory is not for the kernel to write to
    bool renewal_needed_ ABSL_GUARDED_BY(role_) = false;
    bool unnamed_ ABSL_GUARDED_BY(role_) = false;    ///< there was no memory for the sender's address
    bool unsettled_ ABSL_GUARDED_BY(role_) = false;  ///< that, or senders are set aside
    bool closing_ ABSL_GUARDED_BY(role_) = false;    ///< the sender: what fails now has only been interrupted
    std::uint32_t asides_ ABSL_GUARDED_BY(role_) = 0;                ///< ever
    std::uint32_t failing_ ABSL_GUARDED_BY(role_) = present_sender;  ///< whose operation has ended just now
    std::uint32_t behind_ ABSL_GUARDED_BY(role_) = 0;                ///< Returned::behind of what comes back
    std::uint32_t closed_aside_ ABSL_GUARDED_BY(role_) = 0;          ///< whose endpoint is closed just now
    std::uint64_t reopen_at_ ABSL_GUARDED_BY(role_) = 0;             ///< ns; the last attempt failed
    std::uint64_t reopen_pause_ns_ ABSL_GUARDED_BY(role_) = 0;       ///< until the next one
    bool reopen_without_device_ ABSL_GUARDED_BY(role_) = false;      ///< why it failed
    std::uint64_t flushed_by_us_ ABSL_GUARDED_BY(role_) = 0;         ///< CompletionQueue::flushed()
    std::uint64_t stopped_until_ ABSL_GUARDED_BY(role_) = 0;         ///< ns; keep_sender; 0: no
    std::atomic<bool> renewal_requested_{false};
    std::atomic<std::uint64_t> removals_{0};  ///< of peers' addresses
    std::uint32_t renewals_ ABSL_GUARDED_BY(role_) = 0;
    mutable Mutex sender_mutex_;
    Sender sender_ ABSL_GUARDED_BY(sender_mutex_);
    RoleAtExit at_exit_{role_};
};

}  // namespace railyard
