// Small WRITEs and READs that go in one message, with their notification, while they are under way.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "engine/introducer.h"
#include "engine/notification.h"
#include "engine/request.h"

namespace railyard {

class EagerSender;
class Transfer;

/// Of a transfer, which owns it: made once, and used in each round that goes so.
struct EagerRound {
    /// Throws std::bad_alloc.
    explicit EagerRound(Transfer& owner);

    Transfer& transfer;
    const std::string layout;  ///< of the message
    OutNotification message;   ///< with a buffer of its own, or where it is long with one of EagerSender
    EagerSender* home = nullptr;

    /// Of the message as it would be now.
    [[nodiscard]] std::size_t size() const noexcept;

    // Of EagerSender, under its lock.
    std::uint64_t id = 0;
    bool under_way = false;  ///< the message belongs to a rail
    bool answered = false;
    Status answer = Status::ok;
    std::uint32_t received = 0;             ///< bytes of a READ, which are in their places
    std::uint32_t chunk = 0, in_chunk = 0;  ///< where the next one goes
    std::uint64_t again_at = 0;             ///< ns
    std::uint64_t pause = 0;                ///< ns; before that
    std::uint64_t others_heard_at = 0;      ///< ns; when something for another round came from its peer
    std::uint64_t stopped_at = 0;           ///< ns; when the round was seen to be stopped
    std::size_t bytes = 0;                  ///< of the message, as EagerSender counts them
    Rail* rail = nullptr;                   ///< that the message was last sent over, and its sender then
    std::uint32_t sender = 0;
    bool several_ways = false;  ///< it had been sent another way before, or failed there
    bool interrupted = false;   ///< once it was stopped: that sender is to be replaced, as the peer is gone
    EagerRound* previous = nullptr;
    EagerRound* next = nullptr;
};

/// A round is over when the kernel has the message, which is its transfer's, and the peer has answered: a
/// WRITE when data and notification are in their places there, a READ with the data, which goes to its places
/// as it comes. Both may get lost, so the peer is asked again, in growing pauses, until it answers, and while
/// nothing of the data comes; it takes each id once. While it answers others, the answer may only be behind
/// theirs on a slow link: it is not asked again meanwhile, for `longest_pause_ns` at most. A WRITE that is
/// stopped waits for the answer, too, until the one connection that the message has left by is gone, or for
/// `word_limit_ns`: what the peer has by then it may still put in its place. Where the peer is gone, that
/// connection is ended for it: the kernel would go on sending. Any thread; allocates nothing.
class EagerSender final : public AnswerSink {
  public:
    /// Under way at once; more have other ways, and must not wait for one peer.
    static constexpr std::uint32_t most = 16;
    static constexpr std::size_t most_bytes = std::size_t{2} << 20;
    /// Longer messages share buffers: that many handles are prepared costs no more memory.
    static constexpr std::size_t own_buffer = std::size_t{80} << 10;
    static constexpr std::size_t most_buffers = 2;  ///< that are kept
    static constexpr std::uint64_t word_limit_ns = 200'000'000;
    static constexpr std::uint64_t first_pause_ns = 50'000'000, longest_pause_ns = 1'000'000'000;

    explicit EagerSender(Introducer& introducer);
    /// And a buffer for it. False: it has to go another way.
    [[nodiscard]] bool has_room_for(EagerRound& round) noexcept;
    [[nodiscard]] bool has_work() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }
    /// Of a round that has been armed with one part.
    void start(EagerRound& round) noexcept;
    /// Of that instance; one that nobody waits for is ignored.
    void on_answer(std::uint64_t nonce, const Answer& answer) noexcept override;
    void on_data(std::uint64_t nonce, std::uint64_t id, std::uint32_t total, std::uint32_t offset,
                 std::string_view data) noexcept override;
    /// Ends what was stopped, and asks again, where it is time. Not with a rail's role held.
    void look() noexcept;

  private:
    /// What a message says of the round, and of the others.
    struct Ids {
        std::uint64_t own = 0;
        std::uint64_t done_below = 0;
    };
    void unlink(EagerRound& round) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    /// That something has come for it, of which its peer's others are told now and then; nullptr: it is not
    /// there.
    EagerRound* heard(std::uint64_t nonce, std::uint64_t id) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    Ids ids_of(const EagerRound& round) const noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    /// True: the round was waiting for it alone, and is the caller's to end.
    bool answered(EagerRound& round, Status status) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    bool may_ask_again(EagerRound& round, std::uint64_t now) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    bool is_over(EagerRound& round, std::uint64_t now) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    void send(EagerRound& round, Ids ids) noexcept;
    bool is_answered(const EagerRound& round) noexcept;
    void sent(EagerRound& round) noexcept;
    static void end(EagerRound& round, Status status) noexcept;
    static void on_sent(OutMessage& message, Status status) noexcept;

    Introducer& introducer_;
    std::atomic<std::uint32_t> count_{0};
    std::atomic<std::size_t> bytes_{0};  // of all that are under way
    Mutex mutex_;
    std::vector<std::string> buffers_ ABSL_GUARDED_BY(mutex_);  // that nobody uses; room for `most_buffers`
    EagerRound* first_ ABSL_GUARDED_BY(mutex_) = nullptr;
    std::uint64_t told_of_ ABSL_GUARDED_BY(mutex_) = 0;  ///< the instance that heard() told others of last
    std::uint64_t told_at_ ABSL_GUARDED_BY(mutex_) = 0;  ///< ns
};

}  // namespace railyard
