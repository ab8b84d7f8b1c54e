// A rail that has the peer move the bytes: for memory of the peer that no rail reaches.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "engine/introducer.h"
#include "engine/peer.h"
#include "engine/request.h"
#include "manager/gpu_path.h"
#include "manager/registration.h"
#include "rail/pending_list.h"
#include "rail/rail.h"

namespace railyard {

/// What a request needs besides the chunks; Route::forwarding.
struct Forwarding {
    std::shared_ptr<Peer> peer;
    const Work* transfer = nullptr;                      ///< whose stop ends its requests
    std::vector<std::shared_ptr<Registration>> locals;   ///< by Chunk::local_region
    StagingPath* lender = nullptr;                       ///< whose memory it is instead, if any
    std::vector<std::shared_ptr<RemoteRegion>> remotes;  ///< by Chunk::remote_region
    bool flush = false;  ///< no bytes: the peer's GPUs are to see what was written to `remotes`
};

class RequestSender {
  public:
    /// Queues the message; throws Error where it cannot be sent at all.
    virtual void send_request(const std::shared_ptr<Peer>& peer, const Request& request) = 0;

  protected:
    ~RequestSender() = default;
};

/// Each request carries one run of chunks; its answer ends them. A peer that answers nothing for a while is
/// told who asks once more, in growing pauses: it may have forgotten us, and keeps requests until it knows. A
/// request is given up, with remote_disconnect, when the peer has answered for `patience_ns` nothing that was
/// asked before it, or less than `patience_ns` after it: peers move what they are asked for in turns, so that
/// an answer that comes so much before its turn says nothing of what is lost. Where nobody has looked for a
/// quarter of that it waits for another quarter: the answer may lie unread. The requests of a work that was
/// stopped are withdrawn: they end when the peer has said so, and without its word after `word_limit_ns`, or
/// at once where nobody is there to say anything. What a peer does with a request that has ended without its
/// word cannot be taken back: its answer ends nothing, and is looked for by Submission::late only, until
/// forget(). Allocates a little for each request.
class ForwardRail final : public Rail {
  public:
    /// Answers that may be outstanding: of one peer, and in all; the last ones of peers that owe no other, so
    /// that those that are silent hold up nobody else.
    static constexpr std::ptrdiff_t most_requests_of_a_peer = 16;
    static constexpr std::size_t most_requests = 256, kept_for_newcomers = 64;
    static constexpr std::uint64_t chunk_size = std::uint64_t{4} << 20;
    static constexpr std::uint64_t word_limit_ns = 200'000'000;
    static constexpr std::uint64_t first_doubt_ns = 50'000'000;

    ForwardRail(RequestSender& sender, Introducer& introducer, std::uint64_t patience_ns)
        : Rail("forward"), sender_(sender), introducer_(introducer), patience_ns_(patience_ns) {}

    /// The answer of the instance `nonce`; ignored unless it was asked, so that nobody's answers take the
    /// place of another's. Any thread; progress() ends the chunks.
    void answered(std::uint64_t nonce, const Answer& answer);

    /// Some have ended without their answer, and somebody keeps what they were told of. Any thread.
    [[nodiscard]] bool has_unheard() const noexcept {
        return unheard_count_.load(std::memory_order_relaxed) != 0;
    }
    struct Loan {
        StagingPath* lender = nullptr;
        std::shared_ptr<Registration> lent;
    };
    /// Of those that ended so before `before_ns`, each once. Here and below: not with a rail's role held;
    /// throws std::bad_alloc.
    [[nodiscard]] std::vector<Loan> unheard_loans(std::uint64_t before_ns);
    /// Some that were told of it may still be answered.
    [[nodiscard]] bool awaits_answers(const Registration& lent) noexcept;
    /// Raw addresses of the peers that have not answered those that were told of it, and have ended.
    [[nodiscard]] std::vector<std::string> unheard_addresses(const Registration& lent);
    /// Nobody gets at it by what was told: for those no answer is looked for any more. Returns how many.
    std::size_t forget(const Registration& lent) noexcept;

    RegisteredMemory register_memory(const MemoryRange&) override { return {}; }
    [[nodiscard]] std::string address() const override { return {}; }
    [[nodiscard]] std::uint64_t max_chunk() const noexcept override { return chunk_size; }
    /// Answers are looked for by whoever looks for control messages.
    [[nodiscard]] bool needs_polling() const noexcept override { return false; }

  private:
    struct Outstanding {
        std::uint64_t id = 0;
        std::uint64_t nonce = 0;
        std::uint64_t sent_at = 0;  ///< ns
        Submission* submission = nullptr;
        Run run;
        std::uint64_t stopped_at = 0;  ///< ns; of its work, as it was found; 0: it is not
        bool withdrawn = false;
        std::uint64_t doubted_after = first_doubt_ns;
        std::uint64_t heard_at = 0;  ///< ns; of the last answer that says that the peer gets to it; 0: none
        bool excused = false;        ///< since then: nobody had looked for long
        std::shared_ptr<Registration> lent{};  ///< what the peer was told of a lender's memory
    };
    using Name = std::pair<std::uint64_t, std::uint64_t>;  // instance, id
    /// A request that has ended without its answer, and whose memory somebody keeps.
    struct Unheard {
        std::uint64_t id = 0;
        std::uint64_t nonce = 0;
        std::atomic<std::uint32_t>* late = nullptr;
        std::uint64_t since = 0;  ///< ns
        Loan loan{};
        std::vector<std::string> addresses{};  ///< of the peer, which may go meanwhile
    };

    bool serve(bool drain_first) noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    PeerAddress do_insert_peer(std::string_view) override { return 0; }
    void do_remove_peer(PeerAddress) noexcept override {}
    bool may_wait() noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) { return true; }

    bool take_answers() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void end(std::uint64_t nonce, const Answer& answer) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void hear_late(std::uint64_t nonce, std::uint64_t id) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void doubt(Outstanding& request, std::uint64_t waited_ns) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool excuse(Outstanding& request, std::uint64_t now) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool give_up_late_ones(bool looks) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool end_stopped() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void withdraw(std::uint64_t now) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void give_up(const Outstanding& request, Status status) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool ask_pending() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    enum class Asked { through, waits, again };
    Asked ask(Submission& submission) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    bool may_ask(const Peer& peer) const noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    void expect(const Name& request);
    /// Nobody waits for its answer any more.
    void expect_no_more(const Name& request) noexcept;
    /// `lent`: instead of the memories that the submission names.
    static Request make_request(const Submission& submission, Run run, const Registration* lent);
    void count_unheard() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        unheard_count_.store(unheard_.size(), std::memory_order_relaxed);
    }
    static void finish(const Outstanding& request, Status status) noexcept;

    RequestSender& sender_;
    Introducer& introducer_;
    const std::uint64_t patience_ns_;
    PendingList<Submission> pending_ ABSL_GUARDED_BY(role_);
    std::uint32_t waiting_ ABSL_GUARDED_BY(role_) = 0;
    std::uint64_t next_id_ ABSL_GUARDED_BY(role_) = 1;
    std::deque<Outstanding> outstanding_ ABSL_GUARDED_BY(role_);  ///< oldest first
    std::uint64_t looked_at_ ABSL_GUARDED_BY(role_) = 0;          ///< ns; last, with some outstanding
    std::vector<Unheard> unheard_ ABSL_GUARDED_BY(role_);
    std::atomic<std::size_t> unheard_count_{0};  // written by the role holder only
    Mutex answers_mutex_;
    std::vector<Name> expected_ ABSL_GUARDED_BY(answers_mutex_);  ///< outstanding and unheard ones
    std::vector<std::pair<std::uint64_t, Answer>> answers_ ABSL_GUARDED_BY(answers_mutex_);
    /// Of instances with expected ones: the lowest id that they have answered too late, or have made up.
    std::vector<std::pair<std::uint64_t, Answer>> late_ ABSL_GUARDED_BY(answers_mutex_);
};

}  // namespace railyard
