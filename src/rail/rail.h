// One rail: whatever can carry chunks to a peer, owned by whoever holds its role.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/memory_range.h"
#include "common/mpsc_list.h"
#include "common/thread_role.h"
#include "fabric/op_context.h"
#include "rail/pending_list.h"
#include "rail/rail_counters.h"
#include "rail/rail_keeper.h"
#include "rail/work.h"

namespace railyard {

/// Memory registered with one rail. `owner` closes the registration when it goes (see
/// Rail::deregister_memory).
struct RegisteredMemory {
    std::shared_ptr<void> owner;
    void* descriptor = nullptr;
    std::uint64_t key = 0;
    std::uint64_t address_base = 0;
};

/// Receives control messages, and the immediate data of peers' writes. Called by a role holder, which must
/// not be kept waiting: copy and return.
class ControlSink : public fabric::ImmediateSink {
  public:
    /// False: there is no memory for it now. Nothing has changed, and it is to be handed on again.
    virtual bool on_control(std::span<const std::byte> fragment) noexcept = 0;
    void on_immediate(std::uint32_t) noexcept override {}

  protected:
    ~ControlSink() = default;
};

/// The seam between the engine and what moves bytes. Submissions and messages come from any thread: the
/// caller that finds the role free does the work at once, else the work goes to the holder through a
/// hand-over list.
class alignas(cache_line) Rail {
  public:
    enum class Progress { busy, idle, worked };
    /// Who makes progress: a thread of the application, which keeps the role from one look to the next when
    /// it looks all the time, or one of ours, which is there for what others do not get to.
    enum class Looker { caller, background };

    explicit Rail(std::string name) : name_(std::move(name)) {}
    virtual ~Rail() = default;
    Rail(const Rail&) = delete;
    Rail& operator=(const Rail&) = delete;

    [[nodiscard]] const std::string& name() const noexcept { return name_; }

    /// Offers a transfer; its part_done comes when the rail is through with it.
    void submit(Submission& submission) noexcept;
    /// Sends a control message; its done() comes exactly once.
    void send(OutMessage& message) noexcept;
    /// Ends what has completed and posts what waits. busy: somebody else holds the role and does so.
    Progress progress(Looker looker = Looker::caller) noexcept;

    /// Which thread's posts it is for.
    [[nodiscard]] RailKeeper& keeper() noexcept { return keeper_; }
    /// Another thread keeps it, and looks after it: who passes by need not. Any thread.
    [[nodiscard]] bool is_looked_after(std::uint64_t now_ns) noexcept {
        return keeper_.is_at_it(looks_, now_ns);
    }
    /// Somebody is at work on it now. Any thread.
    [[nodiscard]] bool in_use() const noexcept { return role_.held(); }
    /// Operations and submissions on this rail, roughly; for choosing the least loaded. Any thread.
    [[nodiscard]] std::uint32_t load() const noexcept { return load_.load(std::memory_order_relaxed); }
    /// True while something is outstanding or waits to be posted. Any thread.
    [[nodiscard]] bool has_work() const noexcept {
        return load() != 0 || !inbox_.empty() || !outbox_.empty();
    }

    /// Bytes whose operations have ended well, ever, and those with the provider, as of its last round. Any
    /// thread.
    [[nodiscard]] std::uint64_t bytes_carried() const noexcept {
        return bytes_carried_.load(std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint64_t bytes_under_way() const noexcept {
        return bytes_under_way_.load(std::memory_order_relaxed);
    }

    /// What one may have under way in any case, so that a transfer that comes later is not behind everything.
    static constexpr std::uint64_t most_bytes = std::uint64_t{16} << 20;

    /// How fast it carries bytes while it has enough of them, and how often that has been measured.
    struct MeasuredRate {
        std::uint64_t bytes_per_second = 0;  ///< 0: not known
        std::uint32_t samples = 0;           ///< ever; may wrap
    };
    /// Any thread.
    [[nodiscard]] MeasuredRate measured_rate() const noexcept {
        return {rate_.load(std::memory_order_relaxed), rate_samples_.load(std::memory_order_relaxed)};
    }
    /// What share of work the rail is worth beside others: less than full for one that has been found slow.
    /// A hint, so that nothing has to be ordered with it. Any thread.
    static constexpr std::uint32_t full_weight = 256;
    [[nodiscard]] std::uint32_t weight() const noexcept { return weight_.load(std::memory_order_relaxed); }
    void set_weight(std::uint32_t weight) noexcept { weight_.store(weight, std::memory_order_relaxed); }
    /// With `more` operations each, it would be through with what it has before the other is.
    [[nodiscard]] bool ends_before(const Rail& other, std::uint32_t more) const noexcept {
        return std::uint64_t{load() + more} * other.weight() < std::uint64_t{other.load() + more} * weight();
    }

    /// What it has done so far. Waits for the role: for reports. Any thread.
    [[nodiscard]] RailCounters counters() noexcept;

    /// Registers memory; any thread. Throws Error.
    virtual RegisteredMemory register_memory(const MemoryRange& range) = 0;
    /// True when the rail moves GPU memory without a copy by the CPU: its ranges may name a GPU.
    [[nodiscard]] virtual bool reaches_gpu_memory() const noexcept { return false; }
    /// Operations of it may be under way when the rail goes: where the provider goes on with them by itself,
    /// it stays registered until it cannot any more. Before deregister_memory.
    virtual void keep_memory(const RegisteredMemory&) noexcept {}
    /// Ends the registration: no operation touches the memory through it afterwards.
    void deregister_memory(RegisteredMemory& memory) noexcept;

    /// Resolves a peer endpoint's raw address. Throws Error.
    PeerAddress insert_peer(std::string_view address);
    void remove_peer(PeerAddress peer) noexcept;
    /// The same for an endpoint that is only to reach us: nothing is sent to it, but answers where it asked
    /// (OutMessage::asker).
    PeerAddress admit_sender(std::string_view address);
    void dismiss_sender(PeerAddress sender) noexcept;
    /// The process behind it has ended, as far as the rail can see. Any thread.
    [[nodiscard]] virtual bool has_ended(PeerAddress) const noexcept { return false; }
    /// Its engine is open, and the rail gets to it without its help. Any thread.
    [[nodiscard]] virtual bool reaches(PeerAddress) const noexcept { return false; }
    /// The process behind it has ended: what is under way to it ends, too, where the provider does not say so
    /// by itself. Nothing may be submitted to it any more.
    void abandon_peer(PeerAddress peer) noexcept;
    /// Looks at what is with the provider. What has been there at `often` of these looks will not be answered
    /// any more: the sender is replaced, and all that was under way is carried out again. Over sockets, of
    /// messages: their paths are doubted.
    void look_for_unanswered(std::uint8_t often) noexcept;
    /// Immediate data that may come while nobody looks, and that no receive buffer holds back.
    static constexpr std::size_t most_unread_immediates = 8192;
    /// True when operations of it can bring the peer immediate data (Work::immediate).
    [[nodiscard]] virtual bool carries_immediates() const noexcept { return false; }
    /// True when they cost nothing there but an entry of its completion queue.
    [[nodiscard]] virtual bool tells_of_writes() const noexcept { return false; }
    /// Addresses that have been removed, where it answers at senders (OutMessage::asker).
    [[nodiscard]] virtual std::uint64_t removals() const noexcept { return 0; }
    /// This rail's own raw address, for peers.
    [[nodiscard]] virtual std::string address() const = 0;
    /// The endpoint that operations leave from, where that is another than `address`: it is replaced when an
    /// operation on it may not be trusted to be over. Empty: there is no other.
    struct Sender {
        std::uint32_t generation = 1;  ///< grows with each replacement
        std::string address;
    };
    [[nodiscard]] virtual Sender sender() const { return {}; }
    /// Has the sender replaced where there is one, which ends all that is under way; false where there is
    /// none. Any thread.
    virtual bool request_renewal() noexcept { return false; }
    /// Of sender(); any thread, any time.
    [[nodiscard]] std::uint32_t sender_generation() const noexcept {
        return sender_generation_.load(std::memory_order_acquire);
    }

    /// Longest chunk this rail takes.
    [[nodiscard]] virtual std::uint64_t max_chunk() const noexcept = 0;
    /// File descriptor to wait on for completions and messages; -1: there is none, poll.
    [[nodiscard]] virtual int wait_fd() const noexcept { return -1; }
    /// True when things happen on the rail that neither a hand-over nor wait_fd tells of: somebody must look
    /// now and then.
    [[nodiscard]] virtual bool needs_polling() const noexcept { return wait_fd() < 0; }
    /// True when the rail is drained and wait_fd will tell of anything new. False: progress again instead.
    bool prepare_wait() noexcept;

  protected:
    /// For which a rail waits at its end for copies of a GPU.
    static constexpr std::uint64_t teardown_limit_ns = 2'000'000'000;

    /// Posts all of it now and ends its part; false: that takes a whole round, and it has lost nothing. While
    /// nothing has been handed over that would come before it.
    virtual bool post_at_once(Submission&) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) { return false; }
    /// One bounded round with the role held. `drain_first`: false when the caller wants its post out at once.
    virtual bool serve(bool drain_first) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) = 0;
    virtual PeerAddress do_insert_peer(std::string_view address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) = 0;
    virtual void do_remove_peer(PeerAddress peer) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) = 0;
    virtual PeerAddress do_admit_sender(std::string_view address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        return do_insert_peer(address);
    }
    virtual void do_dismiss_sender(PeerAddress sender) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        do_remove_peer(sender);
    }
    virtual void do_abandon_peer(PeerAddress) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {}
    virtual void do_look_for_unanswered(std::uint8_t) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {}
    virtual bool may_wait() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) { return false; }
    [[nodiscard]] virtual RailCounters do_count() const noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        return {};
    }

    /// Moves what was submitted behind `pending`; returns how many.
    std::uint32_t take_submissions(PendingList<Submission>& pending) noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    /// Ends the chunks that nobody has taken or posted; the submission's own part stays armed. Role holder.
    static void fail_rest(Submission& submission, Status status) noexcept;
    /// Offers chunks that were taken, or with none of them the rest of the submission's lane, to another rail
    /// whose path has not failed, and that is not `unable`. False: there is none. Role holder, of this rail.
    static bool hand_on(const Submission& submission, Run chunks, const Rail* unable = nullptr) noexcept;
    /// Where hand_on() would; nullptr: nowhere.
    static const Route* way_on(const Submission& submission, const Rail* unable) noexcept;

    /// Who has released the role looks once more.
    void serve_pushed() noexcept;
    /// Waits for the role and does it; also when `act` throws, what others pushed meanwhile does not stay
    /// behind.
    template <typename Act>
    auto in_turn(const Act& act) {
        struct Serve {
            Rail& rail;
            ~Serve() { rail.serve_pushed(); }
        } serve{*this};
        RoleGuard guard(role_);
        return act();
    }

    ThreadRole role_;
    MpscList<Submission> inbox_;
    MpscList<OutMessage> outbox_;
    std::atomic<std::uint32_t> load_{0};   // written by the role holder only
    std::atomic<std::uint32_t> looks_{0};  // the same; of callers, at what has completed
    std::atomic<std::uint64_t> bytes_carried_{0}, bytes_under_way_{0};  // the same
    std::atomic<std::uint64_t> rate_{0};                                // the same
    std::atomic<std::uint32_t> rate_samples_{0};                        // the same
    std::atomic<std::uint32_t> sender_generation_{1};

  private:
    bool hand_over(bool drain_first) noexcept;
    [[gnu::cold, gnu::noinline]] void count_contention() noexcept;

    std::atomic<std::uint32_t> weight_{full_weight};
    RailKeeper keeper_;
    // Written by those who do not get the role, which must not hold up who has it.
    alignas(cache_line) std::atomic<std::uint64_t> contended_{0};
    alignas(cache_line) std::string name_;
};

}  // namespace railyard
