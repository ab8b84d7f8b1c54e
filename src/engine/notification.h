// Notifications on the wire: cutting messages into fragments and putting them together again.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "engine/early_notices.h"
#include "engine/engine.h"
#include "engine/fragment_pieces.h"
#include "engine/message_auth.h"
#include "engine/recent_messages.h"
#include "rail/rail.h"
#include "rail/work.h"

namespace railyard {

/// Longest notification (bytes).
inline constexpr std::size_t max_notification = std::size_t{16} << 20;

/// Of the header of control messages; another one is refused.
inline constexpr std::uint8_t control_version = 2;

enum class MessageKind : std::uint8_t {
    notify = 1,
    hello = 2,
    hello_ack = 3,
    request = 4,
    answer = 5,
    ping = 6,
    eager = 7,
    eager_answer = 8,
    eager_read = 9,
    eager_data = 10,
    number_wanted = 11,
    number = 12,
    notify_early = 13,
    mark_asked = 14,
    mark_answer = 15,
    credit = 16,
    keys_asked = 17,
    keys = 18,
    notify_early_several = 19
};

/// It waits at its receiver for the word that its data is in place.
[[nodiscard]] constexpr bool is_early(MessageKind kind) noexcept {
    return kind == MessageKind::notify_early || kind == MessageKind::notify_early_several;
}
/// For the application.
[[nodiscard]] constexpr bool notifies(MessageKind kind) noexcept {
    return kind == MessageKind::notify || is_early(kind);
}

/// Not looked for among what has come, where it would leave gaps: it has no number of its own.
[[nodiscard]] constexpr bool is_unnumbered(MessageKind kind) noexcept {
    return kind == MessageKind::ping || kind == MessageKind::eager_answer || kind == MessageKind::eager_data;
}

struct Answer;
struct OutNotification;
class Peer;

/// Hears of the answers to eager WRITEs and READs, with a rail's role held.
class AnswerSink {
  public:
    virtual void on_answer(std::uint64_t nonce, const Answer& answer) noexcept = 0;
    /// `data` is what belongs at that offset of the `total` bytes that the READ with that id asked for.
    virtual void on_data(std::uint64_t nonce, std::uint64_t id, std::uint32_t total, std::uint32_t offset,
                         std::string_view data) noexcept = 0;

  protected:
    ~AnswerSink() = default;
};

/// Takes messages that their path has failed, to send them another way.
class MessageRetry {
  public:
    /// False: there is no other; the message has ended. Called with a rail's role held.
    virtual bool undelivered(OutNotification& message) noexcept = 0;

  protected:
    ~MessageRetry() = default;
};

/// One outgoing message with its cursor. The owner keeps it until done() and may send it again afterwards.
/// Reusing it for a message that is no longer than an earlier one allocates nothing.
struct OutNotification : OutMessage {
    OutNotification();
    /// Readies `message` for sending. `agent` and `nonce` are the sender's, `receiver` is the instance that
    /// it is for. With `auth`, where that has a secret, each fragment is signed. What is given by reference
    /// or pointer must outlive the sending.
    void start(const std::string& agent, std::uint64_t nonce, std::uint64_t id, PeerAddress to,
               std::uint64_t receiver = 0, const MessageAuth* auth = nullptr) noexcept;

    std::string message;
    MessageKind kind = MessageKind::notify;
    EarlyMarks marks;  ///< of an early one: what says that its data is in place
    /// Where it is sent another way when its path fails, and to whom; it outlives the message.
    MessageRetry* retry = nullptr;
    Peer* peer = nullptr;
    std::uint32_t attempts = 0;  ///< on paths that have failed; the owner's to reset
    bool restarted = false;      ///< since start(): it goes another way than at first
    /// Ends it on another path again from its start, as the same message: peers take it once.
    void restart(PeerAddress to) noexcept {
        start(*agent_, nonce_, id_, to, receiver_, auth_);
        restarted = true;
    }

  private:
    [[nodiscard]] std::size_t header_size() const noexcept;
    [[nodiscard]] bool is_signed() const noexcept { return auth_ && auth_->on(); }
    static std::size_t fill_next(OutMessage& message, std::span<std::byte> buffer) noexcept;
    static bool advance_one(OutMessage& message) noexcept;

    const std::string* agent_ = nullptr;
    const MessageAuth* auth_ = nullptr;
    std::uint64_t nonce_ = 0;
    std::uint64_t receiver_ = 0;
    std::uint64_t id_ = 0;
    std::uint32_t offset_ = 0;
    std::uint32_t filled_ = 0;
};

/// A whole message from engine to engine.
struct Letter {
    MessageKind kind = MessageKind::hello;
    std::string agent;
    std::uint64_t nonce = 0;
    std::string text;
    std::uint64_t kept_since = 0;  ///< ns, of one that waits for its sender's introduction
};
/// So that none needs memory to be handed on, or handed back.
using Letters = std::list<Letter>;

/// What an inbox holds at most, in bytes; past it further messages are refused. What a message costs besides
/// its bytes is counted, too.
struct InboxLimits {
    std::size_t unfinished = std::size_t{1} << 30;
    std::size_t notifications = std::size_t{1} << 30;  ///< that nobody has taken yet
    std::size_t letters = std::size_t{64} << 20;
};

/// Puts arriving fragments together, in whatever order they come, and keeps whole messages until they are
/// taken. Hostile input is refused with a line in the log. Any thread.
class NotificationInbox final : public ControlSink {
  public:
    /// `instance`: ours; messages for others are refused, 0 takes any. `auth` outlives the inbox; where it
    /// has a secret, messages that are not signed with it are refused, else those that are signed.
    explicit NotificationInbox(InboxLimits limits = {}, std::uint64_t instance = 0,
                               const MessageAuth* auth = nullptr)
        : limits_(limits), instance_(instance), auth_(auth) {}
    [[nodiscard]] const MessageAuth* auth() const noexcept { return auth_; }
    bool on_control(std::span<const std::byte> fragment) noexcept override;
    void on_immediate(std::uint32_t data) noexcept override;
    /// Who hears of immediate data, for good; it outlives the rails.
    void pass_immediates_to(fabric::ImmediateSink* sink) noexcept {
        immediates_.store(sink, std::memory_order_release);
    }
    /// Likewise, of answers to eager WRITEs and READs.
    void pass_answers_to(AnswerSink* sink) noexcept { answers_.store(sink, std::memory_order_release); }
    /// For the marks of an instance's early notifications, instead of its old one (0: it has none); none:
    /// there is none left, or others hear of immediate data.
    EarlyNotices::Number number(std::uint64_t instance, std::uint32_t old = 0);
    /// The same where there is none left but those that were closed: one of them, if it has rested.
    EarlyNotices::Number rested_number(std::uint64_t instance, std::uint64_t now_ns);
    /// Who has one, in order; nobody, where the next to ask is no worse off for it.
    [[nodiscard]] std::vector<std::uint64_t> instances_in_the_way() const;
    /// EarlyNotices::close_lost.
    void close_lost(std::span<const std::uint64_t> instances) noexcept;
    /// EarlyNotices::is_in_place, of the notification that the instance sent as that message. Throws Error
    /// where the marks are another's, too, and where it is not known any more what has come.
    bool is_in_place(std::uint64_t instance, std::uint32_t mark, std::uint32_t next, std::uint64_t message);
    /// Somebody is to be told how far its early notifications have been looked at.
    [[nodiscard]] bool owes_credit() const noexcept { return owes_credit_.load(std::memory_order_relaxed); }
    /// EarlyNotices::take_credits and give_back.
    [[nodiscard]] EarlyNotices::Credits take_credits() noexcept;
    void give_back(EarlyNotices::Credits credits) noexcept;
    /// EarlyNotices::put_off and owe.
    void put_off(const EarlyNotices::Credit& credit) noexcept;
    void owe(const std::string& agent, std::uint64_t instance) noexcept;
    /// A message of our own to ourselves.
    void put(const std::string& agent, const std::string& message);
    void take(std::vector<Notification>& out);
    /// Messages for the engine itself; a bounded number is kept, the rest refused.
    void take_letters(Letters& out) noexcept;
    /// What could not be read for now, before all that has come meanwhile, whatever the limits are.
    void put_back(Letters letters) noexcept;
    [[nodiscard]] bool has_letters() const noexcept {
        return letter_count_.load(std::memory_order_acquire) != 0;
    }
    [[nodiscard]] bool empty() const noexcept { return ready_count_.load(std::memory_order_acquire) == 0; }
    /// Forgets messages of which nothing has come for minutes: their senders have been cut off in the middle.
    /// Of the engine's watch, as often as it likes; after a time in which nobody looked not at once, as the
    /// rest may be there and not have been read.
    void drop_stale(std::uint64_t now_ns) noexcept;
    /// That have come from that instance, and were new.
    [[nodiscard]] std::uint64_t notifications_from(std::uint64_t nonce) const;
    /// What it holds now, as the limits count it.
    [[nodiscard]] InboxLimits held() const;

  private:
    friend class NotificationRoom;
    using Key = std::pair<std::uint64_t, std::uint64_t>;  // sender's instance, message id
    /// What a message costs besides its bytes, unfinished or waiting to be taken.
    static constexpr std::size_t message_overhead = 256;
    static std::size_t cost(const std::string& agent, const std::string& message) noexcept {
        return message_overhead + agent.size() + message.size();
    }
    struct Fragment;
    struct Partial {
        MessageKind kind = MessageKind::notify;
        std::string agent;
        std::uint32_t total = 0;
        EarlyMarks marks;
        FragmentPieces pieces;
        std::uint64_t last_seen = 0;  // ns
        [[nodiscard]] std::size_t held() const noexcept;
        [[nodiscard]] bool whole() const noexcept { return pieces.whole(total); }
        [[nodiscard]] bool agrees_with(const Fragment& fragment) const noexcept;
        /// The fragment is there already.
        bool has_again(const Fragment& fragment);
    };
    using Partials = std::map<Key, Partial>;
    /// Why a fragment was not taken; an index into their texts, and into what limits their lines in the log.
    enum class Refusal : std::uint8_t { none, malformed, contradicts, not_for_us, tag, count };
    struct Complaint {
        std::atomic<std::uint64_t> said_at{0};  // ns
        std::atomic<std::uint64_t> unsaid{0};
    };

    Refusal read(std::string_view bytes, Fragment& fragment) const noexcept;
    void complain(Refusal refusal, std::size_t bytes) noexcept;
    bool accept(const Fragment& fragment);
    bool pass_on_answer(const Fragment& fragment) const;
    void pass_on_data(const Fragment& fragment) const noexcept;
    bool has_room(const Fragment& fragment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    Partials::iterator add_piece(const Fragment& fragment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    bool make_room(std::size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    void sweep(std::uint64_t now) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    void push(std::string agent, std::string message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    bool deliver(const Fragment& fragment, EarlyNotices::Notice& whole) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    bool deliver_partial(const Fragment& fragment, Partials::iterator found)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    /// So that push_back needs no memory.
    template <class Element>
    static void room_for_one(std::vector<Element>& elements) {
        if (elements.size() == elements.capacity()) elements.reserve(2 * elements.size() + 1);
    }
    /// Somebody is to call take().
    void tell_of_ready() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        ready_count_.store(ready_.size() + late_marks_, std::memory_order_release);
    }
    // notification_early.cpp
    bool deliver_early(EarlyMarks marks, const Key& key, EarlyNotices::Notice& notice)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    void drop_early(EarlyMarks marks, const Key& key, std::string_view agent)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    void drop_unfinished(EarlyMarks marks, const Key& key, std::string_view agent)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    bool place(std::uint32_t mark) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    void cut_off(std::uint32_t mark) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    void no_more_of(const std::vector<EarlyNotices::Notice>& notices) noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    void place_late() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        if (late_marks_ != 0) [[unlikely]]
            place_those_late();
    }
    void place_those_late() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

    const InboxLimits limits_;
    const std::uint64_t instance_;
    const MessageAuth* const auth_;
    std::atomic<fabric::ImmediateSink*> immediates_{nullptr};
    std::atomic<AnswerSink*> answers_{nullptr};
    std::array<Complaint, static_cast<std::size_t>(Refusal::count)> complaints_;
    mutable Mutex mutex_;
    InboxLimits held_ ABSL_GUARDED_BY(mutex_){0, 0, 0};
    std::size_t promised_ ABSL_GUARDED_BY(mutex_) = 0;  ///< of held_.notifications, to NotificationRooms
    Partials partial_ ABSL_GUARDED_BY(mutex_);
    RecentMessages delivered_ ABSL_GUARDED_BY(mutex_);
    EarlyNotices early_ ABSL_GUARDED_BY(mutex_);               ///< what waits there counts as unfinished
    std::atomic<bool> owes_credit_{false};                     ///< written under the mutex
    std::uint64_t swept_at_ ABSL_GUARDED_BY(mutex_) = 0;       // ns; for want of room
    std::uint64_t idly_swept_at_ ABSL_GUARDED_BY(mutex_) = 0;  // ns; by the engine's watch
    std::vector<Notification> ready_ ABSL_GUARDED_BY(mutex_);
    std::atomic<std::size_t> ready_count_{0};  ///< and of late marks
    /// Marks that there was no memory for when they came: no buffer holds them back.
    std::array<std::uint32_t, 256> late_ ABSL_GUARDED_BY(mutex_);
    std::size_t late_marks_ ABSL_GUARDED_BY(mutex_) = 0;
    Letters letters_ ABSL_GUARDED_BY(mutex_);
    std::atomic<std::size_t> letter_count_{0};
};

}  // namespace railyard
