// Control messages of one rail: fragments out through a pool of send buffers, fragments in to a sink.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "fabric/endpoint.h"
#include "fabric/memory_region.h"
#include "rail/answer_channel.h"
#include "rail/rail_counters.h"
#include "rail/receive_slots.h"
#include "rail/refused_fragments.h"
#include "rail/sweep.h"
#include "rail/waiting_behind.h"
#include "rail/work.h"

namespace railyard {

/// Role holder only, like the endpoint it uses.
class ControlChannel {
  public:
    /// One fragment, header included.
    static constexpr std::size_t fragment_size = OutMessage::longest_fragment;
    static constexpr std::size_t send_slots = 16;
    static constexpr std::size_t receive_slots = 32;
    /// Over sockets, where a fragment has its slot until its peer looks: in all, made as they are wanted.
    static constexpr std::size_t most_slots = 1024;
    /// To one peer: others do not wait for one that does not look, or that a NIC still tries to reach. Probes
    /// do not count for that. Once half of all are out it is one.
    static constexpr std::size_t most_to_one = send_slots / 2;
    /// Of fragments that were refused: a device takes its time over each for whose receiver it has to try.
    static constexpr std::size_t most_again = send_slots / 4;
    /// Of messages with a patience of their own: probes go to peers that may be dead, and what others are
    /// told must not wait for these.
    [[nodiscard]] std::size_t most_impatient() const noexcept { return most_sends_ / 2; }
    /// Nobody else has the last ones: where all others are with peers that do not look, the rest must still
    /// be asked whether they are there.
    [[nodiscard]] std::size_t kept_for_probes() const noexcept { return most_sends_ / 16; }
    /// Registered memory of a rail's control messages; 32 rails are to stay below 16 MiB.
    static constexpr std::size_t pinned_bytes = (send_slots + receive_slots) * fragment_size;
    static_assert(pinned_bytes <= std::size_t{512} << 10);

    ControlChannel(const fabric::Domain& domain, fabric::Endpoint& endpoint, ControlSink& sink,
                   std::uint64_t give_up_after_ns);
    ~ControlChannel() = default;
    ControlChannel(const ControlChannel&) = delete;
    ControlChannel& operator=(const ControlChannel&) = delete;

    /// Where messages leave from; nullptr: nowhere, they end with remote_disconnect, so that they go another
    /// way.
    void send_from(fabric::Endpoint* sender) noexcept;
    /// The sender is about to be closed: what fails until end_renewal() has only been interrupted. Returns
    /// what the provider may still tell of. Throws std::bad_alloc, and has done nothing then.
    std::shared_ptr<void> begin_renewal();
    /// Sends from `sender` what was under way, ahead of all else.
    void end_renewal(fabric::Endpoint* sender) noexcept;
    /// What the sender has of messages, and will end there.
    class Aside;
    /// The sender stays open, and what it has of messages ends with it, as it ends; another one sends from
    /// other buffers. Only probes end now, as lost: they would be waited for. Nothing is sent until
    /// send_from(), and never where not `goes_on`. Has room for as many that are awaited besides. Throws
    /// where there is no memory for it, and has done nothing then. Between renewals.
    std::unique_ptr<Aside> set_aside(std::size_t awaited, bool goes_on);
    /// What has not ended there ends as lost, with `status`, whatever the provider may still tell of it.
    void give_up(Aside& aside, Status status) noexcept;
    /// Its sender has been closed: what had not ended there is sent again.
    void take_back(Aside& aside) noexcept;
    /// That address has been removed.
    void forget(PeerAddress peer) noexcept;
    /// Fragments with the sender that there is now.
    [[nodiscard]] std::size_t with_sender() const noexcept { return sends_->posted(); }
    void queue(OutMessage* chain) noexcept { pending_.append(chain); }
    /// Ends every message that is left as canceled. Nothing may complete or be posted afterwards.
    void cancel_all() noexcept;
    /// Posts what there is room for; true if anything went out.
    bool post_pending() noexcept;
    /// An address of a peer is removed, as the `count`th: answers to askers that were looked up before
    /// (OutMessage::removals) go the ordinary way.
    void peer_removed(std::uint64_t count) noexcept { removals_ = count; }
    [[nodiscard]] std::uint32_t outstanding() const noexcept {
        return in_flight_ + (answers_ ? answers_->outstanding() : 0);
    }
    /// Fragments that have been found with the provider `often` times, this one included.
    std::size_t unanswered(std::uint8_t often) noexcept;
    /// Where nobody says that a connection is dead: the paths of those are doubted, but for probes, whose
    /// sender waits for them.
    void doubt_unanswered(std::uint8_t often) noexcept;
    /// Of messages, either way.
    [[nodiscard]] bool has_pending() const noexcept { return !pending_.empty() || keeps_fragments(); }
    /// What waits is looked at once more before anybody sleeps.
    void ask_again() noexcept { asks_again_ = true; }
    /// Some of that is not heard of when something ends.
    [[nodiscard]] bool asks_again() const noexcept {
        return (asks_again_ && !pending_.empty()) || keeps_fragments();
    }
    /// Nothing is left for post_pending to do.
    [[nodiscard]] bool is_calm() const noexcept {
        return !has_pending() && receives_missing() == 0 && given_up_.empty();
    }
    /// Something waits for the provider, and not only for a peer that took nothing a moment ago.
    [[nodiscard]] bool wants_room() const noexcept { return wants_room_; }
    /// Receive buffers that the provider has not taken; they are offered again in post_pending.
    [[nodiscard]] std::size_t receives_missing() const noexcept {
        return receives_.missing() + (answers_ ? answers_->receives_missing() : 0);
    }
    [[nodiscard]] const ControlCounters& counters() const noexcept { return counters_; }

  private:
    struct Slot : fabric::OpContext {
        ControlChannel* channel = nullptr;
        OutMessage* message = nullptr;
        std::byte* buffer = nullptr;
        std::size_t length = 0;
        std::unique_ptr<RefusedFragment> refused;  // what is sent again
        PeerAddress destination = no_address;      // where it is going, also after the end of its message
        bool interrupted = false;                  // sent, and perhaps never gone
        std::unique_ptr<std::byte[]> own_buffer;   // of one beyond the first send_slots
        Slot* next = nullptr;
    };
    /// All send slots of one sender. They stay where they are.
    struct Slots : std::deque<Slot> {
        using std::deque<Slot>::deque;
        /// Those that are with the provider.
        [[nodiscard]] std::size_t posted() const noexcept;
        std::unique_ptr<std::byte[]> buffers;  ///< none: in those of the channel
        fabric::MemoryRegion region;           ///< of them
        void* descriptor = nullptr;
    };

    /// To be sent again, or handed on.
    [[nodiscard]] bool keeps_fragments() const noexcept {
        return interrupted_ || !refused_.empty() || receives_.holds_messages() ||
               (answers_ && answers_->holds_messages());
    }
    fabric::PostResult post(const OutMessage& message, Slot& slot, std::size_t length) noexcept;
    bool post_interrupted() noexcept;
    void put_last(Slot** behind) noexcept;
    [[nodiscard]] bool may_have_slot() const noexcept {
        return free_sends_ || (sends_->size() < most_sends_ && !next_sends_);
    }
    /// There is a free one.
    [[nodiscard]] bool find_slot() noexcept { return free_sends_ || add_slot(); }
    bool add_slot() noexcept;
    /// Of its receiver's, where that has its share; probes wait behind nobody.
    [[nodiscard]] OutMessage* first_of(const OutMessage& message) const noexcept {
        return message.patience_ns ? nullptr
                                   : static_cast<OutMessage*>(blocked_.first_of(message.destination));
    }
    void take_slots_away() noexcept;
    /// Of free ones: takes it out, for that.
    void take_slot(OutMessage& message, std::size_t length) noexcept;
    [[nodiscard]] std::size_t under_way_to(PeerAddress peer) const noexcept;
    [[nodiscard]] bool has_enough(OutMessage& message) noexcept;
    [[nodiscard]] bool blocks(const OutMessage& message) noexcept;
    [[nodiscard]] bool is_lost(const OutMessage& message) const noexcept;
    /// Fragments of it with the provider.
    void count(const OutMessage& message, int more) noexcept {
        in_flight_ += static_cast<std::uint32_t>(more);
        if (message.patience_ns) impatient_ += static_cast<std::uint32_t>(more);
    }
    [[nodiscard]] std::uint64_t patience_with(const OutMessage& message) const noexcept;
    /// One more refusal: it waits, and what goes to the same peer does. False when there have been enough.
    bool waits(OutMessage& message) noexcept;
    bool keep_refused(Slot& slot) noexcept;
    [[nodiscard]] bool waits_for_refused(OutMessage& message) noexcept;
    [[nodiscard]] std::size_t may_repeat() const noexcept;
    bool send_refused() noexcept;
    bool end_refused() noexcept;
    [[nodiscard]] bool has_failed(OutMessage& message) const noexcept;
    enum class Resent { sent, waits, over };
    Resent send_again(std::unique_ptr<RefusedFragment>& fragment) noexcept;
    void give_up_on(PeerAddress peer) noexcept;
    [[nodiscard]] bool is_unreachable(const OutMessage& message) const noexcept;
    [[nodiscard]] bool over(OutMessage& message) const noexcept;
    bool answered(OutMessage& message) noexcept;
    bool post_fragments(OutMessage& message, bool& sent) noexcept;
    void end_as_lost(Slot& slot, Status status) noexcept;
    void note_heard_of(PeerAddress peer, Status status) noexcept;
    void end_sent(Slot& slot, const fabric::Completion& completion) noexcept;
    void forget(Aside& aside) noexcept;
    static void on_sent_aside(fabric::OpContext& op, const fabric::Completion& completion) noexcept;
    static void on_sent(fabric::OpContext& op, const fabric::Completion& completion) noexcept;

    const fabric::Domain& domain_;
    fabric::Endpoint& receiver_;
    fabric::Endpoint* sender_ = nullptr;
    const std::uint64_t give_up_after_ns_;
    const std::string rail_;
    const std::size_t fragment_limit_;
    const bool connects_;  // over sockets: the dead take nothing, and what the kernel has is not there yet
    const std::size_t most_sends_;  // slots
    ControlCounters counters_;
    std::unique_ptr<std::byte[]> buffers_;
    fabric::MemoryRegion region_;
    ReceiveSlots receives_;
    std::shared_ptr<Slots> sends_;
    std::vector<Aside*> asides_;         ///< those that there are
    std::shared_ptr<Slots> next_sends_;  ///< ready for after a renewal
    bool closing_ = false;
    Slot* free_sends_ = nullptr;
    Slot* interrupted_ = nullptr;
    PendingList<OutMessage> pending_;
    RefusedFragments refused_;
    std::unique_ptr<AnswerChannel> answers_;  ///< where there is such a way
    std::uint64_t removals_ = 0;
    bool wants_room_ = false;
    bool asks_again_ = false;       // somebody took nothing in the last pass, or not all were asked
    WaitingBehind waiting_behind_;  // others of pending_ for the same peer
    Sweep<OutMessage> sweep_;       // over pending_
    BlockedSet blocked_;            // take nothing in this pass
    PeerSet given_up_;              // peers that took nothing for too long, seen since the last pass
    std::uint32_t in_flight_ = 0;
    std::uint32_t impatient_ = 0;  // of them, of messages with a patience of their own
};

class ControlChannel::Aside {
  public:
    ~Aside();
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;

    /// Its sender has operations to that peer, too.
    void await(PeerAddress peer) noexcept;
    /// It awaits that peer, and a message there which left from another sender since then has arrived; or it
    /// has failed, as nobody is there, a second or more after this sender was set aside. Either way the
    /// device is through with that peer, or will be in a moment, and waits for no receive buffer.
    [[nodiscard]] bool has_heard_of(PeerAddress peer) noexcept;
    /// All of those have arrived.
    [[nodiscard]] bool is_certain() const noexcept { return certain_; }
    /// It has heard of somebody since it was last asked that.
    [[nodiscard]] bool has_news() noexcept { return std::exchange(news_, false); }
    /// So it is with the receivers of all that has not ended.
    [[nodiscard]] bool has_heard_of_all() noexcept;
    /// Fragments that have not ended.
    [[nodiscard]] std::size_t unended() const noexcept { return slots_->posted(); }
    /// Its sender is being closed: what fails from here on has only been interrupted.
    void close() noexcept { closing_ = true; }
    /// Of a sender that has been closed: what the provider may still tell of.
    [[nodiscard]] std::shared_ptr<void> remains() noexcept {
        slots_->region = {};
        slots_->buffers.reset();
        return std::move(slots_);
    }

  private:
    friend class ControlChannel;
    Aside(ControlChannel& channel, std::shared_ptr<Slots> slots, std::size_t awaited);
    struct Awaited {
        PeerAddress peer;
        bool heard_of;
    };
    [[nodiscard]] std::vector<Awaited>::iterator place_of(PeerAddress peer) noexcept;
    ControlChannel* channel_;  ///< nullptr: closed
    std::shared_ptr<Slots> slots_;
    std::vector<Awaited> awaited_;  ///< receivers of all that its sender has, in order; room for them
    const std::uint64_t since_;     ///< ns
    bool certain_ = true, news_ = false, closing_ = false;
};

}  // namespace railyard
