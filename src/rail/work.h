// What rails pull from: the chunks of one transfer in lanes, each with a cursor, and the countdown to its
// end.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/status.h"
#include "rail/lane.h"
#include "rail/path.h"
#include "rail/pending_list.h"
#include "rail/stall_clock.h"

namespace railyard {

class Rail;
struct Forwarding;
struct Rerun;

/// Handle of a peer's endpoint in one rail's address vector.
using PeerAddress = std::uint64_t;
inline constexpr PeerAddress no_address = UINT64_MAX;

/// One contiguous piece, small enough for one operation.
struct Chunk {
    std::uint64_t local = 0;
    std::uint64_t remote = 0;  ///< the peer's pointer; the route turns it into what the provider wants
    std::uint32_t length = 0;
    std::uint32_t local_region = 0;   ///< index into Route::descriptors
    std::uint32_t remote_region = 0;  ///< index into Route::keys
};

struct RemoteKey {
    std::uint64_t key = 0;
    std::uint64_t address_base = 0;  ///< subtracted from the peer's pointer
};

/// Memory as the rails of one engine know it.
struct KeyTable {
    std::vector<std::uint16_t> rails;  ///< growing
    std::vector<RemoteKey> keys;       ///< in the order of `rails`
};

/// How one rail carries one lane. Written when the transfer is prepared, read-only afterwards, but for the
/// keys: one that was refused is replaced, with its rail's role held (Work::renews).
struct Route {
    Rail* rail = nullptr;
    PeerAddress destination = no_address;
    Path* path = nullptr;  ///< nullptr: there is no fabric in between
    bool gated = false;    ///< nothing may be posted before the path admits our sender
    std::vector<void*> descriptors{};
    std::vector<RemoteKey> keys{};
    std::uint16_t remote_rail = 0;  ///< the peer's that the keys are of
    /// Of a staged lane: the rails behind the staging memory. They see one local region, which is that
    /// memory; their keys are by the transfer's remote regions.
    std::vector<Route> carriers{};
    /// Of copies by a GPU, and of a staged lane: the GPU's threads, too, may touch all of the memory.
    bool threads_reach = false;
    /// Of a rail that has its peer do the work: what the peer has to know.
    const Forwarding* forwarding = nullptr;

    [[nodiscard]] bool has_failed() const noexcept { return path && path->failed(); }
};

/// Memory that stays registered until this goes (Work::keeps_memory).
struct KeptMemory {
    virtual ~KeptMemory() = default;
};

/// The pull side of a transfer. One round: arm() by the poster; then rails pull the lanes dry, each operation
/// and each submission ends in one part_done(). The round is over when everything armed is done.
class Work {
  public:
    enum class Kind : std::uint8_t { read, write };
    /// Called once per round, by whoever ends the last data part, while the tail part still holds the round
    /// open.
    using Tail = void (*)(Work& work) noexcept;

    /// Starts a round of `submissions` hand-overs over all chunks. With `tail`, one more part is armed, which
    /// the tail ends itself. Only while done(); before anything is handed over.
    void arm(std::uint32_t submissions, Tail tail) noexcept {
        begin_round(static_cast<std::uint32_t>(chunks.size()) + submissions + (tail ? 1 : 0), tail);
        for (Lane& lane : lanes)
            lane.rewind();
    }
    /// Starts a round of one part, which stands for all chunks: no rail is offered any.
    void arm_instead() noexcept { begin_round(1, nullptr); }

    /// Ends one part, or several at once. The last call of a round is the last touch of the object by the
    /// rails: the poster may repost or free it from then on. The release half pairs with done()'s acquire.
    void part_done(Status status, std::uint32_t parts = 1) noexcept {
        const Tail tail = tail_;
        if (status != Status::ok) stop(status);
        const std::uint32_t before = remaining_.fetch_sub(parts, std::memory_order_acq_rel);
        if (tail && before == parts + 1) tail(*this);
    }

    /// Ends the part of a hand-over whose one chunk is about to be posted, if those two are all that is left
    /// of the data: nobody else can end a part then, so it takes no read-modify-write. False: there is more.
    bool end_hand_over_early() noexcept {
        if (remaining_.load(std::memory_order_relaxed) != hand_over_and_chunk()) return false;
        remaining_.store(hand_over_and_chunk() - 1, std::memory_order_relaxed);
        return true;
    }
    /// The chunk was not posted after all.
    void resume_hand_over() noexcept { remaining_.store(hand_over_and_chunk(), std::memory_order_relaxed); }

    /// Makes the round end with `status` unless it has failed already: rails post no more of it. Any thread.
    void stop(Status status) noexcept { stop(status, round()); }
    /// The same for that round alone, which may be over, and another one under way. False: nothing was ended.
    bool stop(Status status, std::uint32_t of_round) noexcept {
        std::uint64_t expected = outcome_of(of_round, Status::ok);
        return outcome_.compare_exchange_strong(expected, outcome_of(of_round, status),
                                                std::memory_order_relaxed);
    }
    /// Counts up from arm() to arm().
    [[nodiscard]] std::uint32_t round() const noexcept {
        return static_cast<std::uint32_t>(outcome_.load(std::memory_order_acquire) >> 8);
    }

    /// Ends a round of which nothing has been handed over yet.
    void abandon(Status status) noexcept {
        stop(status);
        remaining_.store(0, std::memory_order_release);
    }

    /// Nothing of the round is outstanding (true before the first round, too).
    [[nodiscard]] bool done() const noexcept { return remaining_.load(std::memory_order_acquire) == 0; }
    /// Parts that have not ended, at some moment of late.
    [[nodiscard]] std::uint32_t parts_left() const noexcept {
        return remaining_.load(std::memory_order_relaxed);
    }
    /// Of the finished round, or the first error so far.
    [[nodiscard]] Status status() const noexcept {
        return static_cast<Status>(outcome_.load(std::memory_order_relaxed) & 0xff);
    }

    Kind kind = Kind::write;
    /// Of a write: chunk i carries this and i as immediate data, however often it is posted, unless that was
    /// replaced. Set between rounds.
    std::optional<std::uint32_t> immediate;
    /// Where there is: what that chunk carries. By who has it.
    [[nodiscard]] std::uint32_t immediate_of(std::uint32_t chunk) const noexcept {
        const std::uint32_t* const replaced = replaced_immediates_.load(std::memory_order_acquire);
        return replaced ? replaced[chunk] : *immediate + chunk;
    }
    /// That chunk carries something else when it is posted again, and those behind it what they did. By who
    /// has it. Throws std::bad_alloc.
    void replace_immediate(std::uint32_t chunk, std::uint32_t by);
    /// Before another `immediate` is set. Between rounds.
    void forget_replaced_immediates() noexcept {
        if (replaced_immediates_.load(std::memory_order_relaxed)) drop_replaced_immediates();
    }
    /// What may be done with a chunk whose operation has not ended as it should.
    enum class Verdict : std::uint8_t {
        repeat,   ///< it may be posted again
        done,     ///< it has been carried out
        lost,     ///< neither; it ends with remote_disconnect
        unknown,  ///< ask again later
    };
    /// Where that is, and no chunk may be posted again without: asked until it says something else than
    /// unknown. May replace the chunk's immediate data. Called by the one rail that has it, with its role
    /// held.
    using MayRepeat = Verdict (*)(Work& work, std::uint32_t chunk) noexcept;
    MayRepeat repeats = nullptr;
    std::vector<Chunk> chunks;
    std::vector<Lane> lanes;  ///< together all chunks, each once

    [[nodiscard]] std::uint32_t index_of(const Chunk& chunk) const noexcept {
        return static_cast<std::uint32_t>(&chunk - chunks.data());
    }

    /// A chunk whose key its owner's NIC has refused.
    struct Refusal {
        const Route& route;
        const Chunk& chunk;
        std::uint64_t key = 0;
        std::uint64_t at = 0;  ///< ns
    };
    /// As MayRepeat: repeat once the route has the present key and nobody gets at the memory by the one that
    /// was refused, so that nothing of the operation is still to come. nullptr: there is no other.
    using RenewKey = Verdict (*)(Work& work, const Refusal& refusal) noexcept;
    RenewKey renews = nullptr;
    Work* whole = this;  ///< the one that is asked
    Verdict renew_key(const Refusal& refusal) noexcept { return renews(*whole, refusal); }

    /// `pinned`: whoever deregisters it has to wait; else what the provider has of it stays behind that.
    enum class KeptAs : std::uint8_t { pinned, with_rail };
    /// Where there is: keeps the local memory of these chunks, which have not ended, registered with the
    /// route's rail until what it returns goes; nullptr, where there is no memory for that: for ever.
    using KeepMemory = std::unique_ptr<KeptMemory> (*)(const Work& work, Run chunks, const Route& route,
                                                       KeptAs as) noexcept;
    KeepMemory keeps_memory = nullptr;

    [[nodiscard]] bool asks_before_repeat() const noexcept { return immediate && repeats; }
    Verdict may_repeat(std::uint32_t chunk) noexcept { return repeats(*this, chunk); }
    /// Arms one more part, which keeps the round from ending. Only by who holds a part of it that has not
    /// ended.
    void add_part() noexcept { remaining_.fetch_add(1, std::memory_order_relaxed); }
    /// Chunks of the round that another rail was given. Kept until the next round, or the end.
    void keep(std::unique_ptr<Rerun> rerun) noexcept;

    Work() = default;
    ~Work();
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

  private:
    void drop_reruns() noexcept;
    void drop_replaced_immediates() noexcept;
    void begin_round(std::uint32_t parts, Tail tail) noexcept {
        if (reruns_.load(std::memory_order_relaxed)) drop_reruns();
        tail_ = tail;
        // Release: who sees this round sees what its poster did before.
        outcome_.store(outcome_of(round() + 1, Status::ok), std::memory_order_release);
        // Relaxed is enough towards the rails: they see it through the hand-over list (seq_cst push and
        // take), or the role of who posts it at once.
        remaining_.store(parts, std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint32_t hand_over_and_chunk() const noexcept { return tail_ ? 3 : 2; }
    /// A round and its first error.
    static constexpr std::uint64_t outcome_of(std::uint32_t round, Status status) noexcept {
        static_assert(Status::ok == Status{0});
        return std::uint64_t{round} << 8 | static_cast<std::uint64_t>(status);
    }

    Tail tail_ = nullptr;
    std::atomic<std::uint32_t> remaining_{0};
    std::atomic<std::uint64_t> outcome_{0};  ///< see outcome_of
    std::atomic<Rerun*> reruns_{nullptr};
    std::atomic<std::uint32_t*> replaced_immediates_{nullptr};  ///< by chunk
};

/// One lane offered to one rail. Lives in the transfer; belongs to the rail from submit() until its
/// part_done.
struct Submission {
    Submission* next = nullptr;  ///< hand-over list, then the rail's list of pending work
    Lane* lane = nullptr;
    const Route* route = nullptr;
    /// All routes that may carry the lane, this one among them: where chunks go when their path fails.
    std::span<const Route> alternatives{};
    Run run;             ///< taken and not yet posted; role holder only
    StallClock stalled;  ///< while the provider answers EAGAIN; role holder only
    /// What it may still post in this turn, or has overdrawn; bytes, role holder only.
    std::int64_t allowance = 0;
    std::uint32_t outstanding = 0;     ///< its chunks with the provider; role holder only
    PendingList<Submission> behind{};  ///< to the same peer, and wait for its share; role holder only
    bool in_turn = false;              ///< has been given its allowance and may not have used it yet
    bool undivided = false;            ///< the rail has a striped lane to itself, by who offers it
    /// The rail cannot get at the memory, in no round: others carry the lane from the next one on. Role
    /// holder only; between rounds, by who offers it.
    bool kept_from_rail = false;
    std::uint32_t attempts = 0;  ///< rails that its chunks were taken from
    std::uint32_t moved = 0;     ///< bytes of the first chunk of its run, where a rail may stop inside of one
    /// Where rails have different weights, by who offers it. Chunks that the rail may have outstanding,
    /// instead of the lane's share; 0: that.
    std::uint32_t share = 0;
    /// Of a slow rail, which leaves the rest to others rather than end last: what it may have outstanding of
    /// the chunks that have not ended, in parts of `whole`; 0: it takes what there is.
    std::uint32_t part_of_rest = 0;
    static constexpr std::uint32_t whole = 1 << 16;
    /// Its owner's, nullptr where nobody asks: how much may still be carried out on the local memory after
    /// the round. Read after the round; falls when that is over. Outlives the rails.
    std::atomic<std::uint32_t>* late = nullptr;

    /// Before each hand-over.
    void rearm() noexcept {
        stalled.reset();
        allowance = 0;
        outstanding = 0;
        in_turn = undivided = false;
        attempts = 0;
        moved = 0;
        share = part_of_rest = 0;
    }
    /// Chunks that the rail may have outstanding now.
    [[nodiscard]] std::uint32_t most_outstanding() const noexcept {
        if (share == 0) [[likely]]
            return lane->share;
        if (part_of_rest == 0) return share;
        const std::uint64_t rest =
            std::min(lane->work->parts_left(), lane->size() + 1);  // its own hand-over, too
        return std::min(share, static_cast<std::uint32_t>(rest * part_of_rest / whole));
    }
};

/// What a rail could not carry, offered to another one.
struct Rerun {
    /// Chunks that the rail had taken; empty: what is left of its lane.
    Rerun(const Submission& failed, Run chunks, const Route& instead);

    std::optional<Lane> lane;  ///< of the chunks
    Submission submission;
    Rerun* next = nullptr;
};

/// A control message on its way out, in fragments. Lives with its sender until `done`.
struct OutMessage {
    /// Writes the next fragment into `buffer` without moving on; returns its length.
    using Fill = std::size_t (*)(OutMessage& message, std::span<std::byte> buffer) noexcept;
    /// Moves on behind the fragment last filled; false when that was the last.
    using Advance = bool (*)(OutMessage& message) noexcept;
    /// Called once, after the last fragment's completion or the first failure: the sender may free it then.
    using Done = void (*)(OutMessage& message, Status status) noexcept;
    /// Room that fill has, at most (bytes). Fits an EFA datagram.
    static constexpr std::size_t longest_fragment = 8192;

    OutMessage* next = nullptr;
    PeerAddress destination = no_address;
    Path* path = nullptr;  ///< to there; where others are better, it ends and is sent another way
    /// Its receiver answers, and is asked again where no answer comes: over sockets it ends once the kernel
    /// has it.
    bool is_answered = false;
    /// Of an answer, the endpoint that its question came from, where AnswerChannel may send it; left alone as
    /// long as that has it. no_address: it goes to its destination.
    PeerAddress asker = no_address;
    /// Rail::removals when `asker` was looked up: with another count it may be nobody's, or another one's.
    std::uint64_t removals = 0;
    std::uint64_t patience_ns = 0;  ///< with a peer that takes nothing; 0: the rail's
    Fill fill = nullptr;
    Advance advance = nullptr;
    Done done = nullptr;
    Work* owner = nullptr;  ///< the transfer whose tail this is, and whose end it shares; nullptr: by itself
    // The channel's own state, role holder only.
    std::uint32_t in_flight = 0;
    bool exhausted = false;
    Status status = Status::ok;
    StallClock stalled;
    PendingList<OutMessage> behind{};  ///< for the same peer, and wait for its share
    std::uint64_t interrupted_at = 0;  ///< ns; when its sender was first replaced under it
    /// Given up because one sender after the other was, or gone with its connection: says nothing of its
    /// receiver.
    bool lost = false;

    /// Not ok once its owner has been stopped: it is not sent any further.
    [[nodiscard]] Status wanted() const noexcept { return owner ? owner->status() : Status::ok; }
    /// One of its fragments is with the provider no more. The first error is the message's.
    void fragment_done(Status outcome) noexcept {
        if (outcome != Status::ok && status == Status::ok) status = outcome;
        if (--in_flight == 0 && exhausted) done(*this, status);
    }
};

}  // namespace railyard
