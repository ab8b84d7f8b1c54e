#include "rail/control_channel.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "common/log.h"
#include "rail/rail.h"

namespace railyard {

ControlChannel::ControlChannel(const fabric::Domain& domain, fabric::Endpoint& endpoint, ControlSink& sink,
                               std::uint64_t give_up_after_ns)
    : domain_(domain),
      receiver_(endpoint),
      give_up_after_ns_(give_up_after_ns),
      rail_(domain.rail()),
      fragment_limit_(std::min(fragment_size, domain.caps().max_eager)),
      connects_(domain.caps().sends_into_sockets),
      most_sends_(connects_ && !domain.caps().local_descriptors ? most_slots : send_slots),
      buffers_(std::make_unique_for_overwrite<std::byte[]>(pinned_bytes)),
      receives_(rail_, buffers_.get(), receive_slots, sink, counters_),
      sends_(std::make_shared<Slots>(send_slots)) {
    if (domain.caps().answers_at_sender)
        answers_ = std::make_unique<AnswerChannel>(rail_, endpoint, sink, counters_);
    if (domain.caps().local_descriptors) {
        region_ = fabric::MemoryRegion(domain, endpoint,
                                       {reinterpret_cast<std::uint64_t>(buffers_.get()), pinned_bytes});
    }
    receives_.open(endpoint, region_.descriptor());
    sends_->descriptor = region_.descriptor();
    std::byte* buffer = buffers_.get() + receive_slots * fragment_size;
    for (Slot& slot : *sends_) {
        slot.channel = this;
        slot.buffer = std::exchange(buffer, buffer + fragment_size);
        slot.handler = on_sent;
        slot.next = free_sends_;
        free_sends_ = &slot;
    }
}

void ControlChannel::send_from(fabric::Endpoint* sender) noexcept {
    sender_ = sender;
    if (answers_ && sender) answers_->receive_at(*sender);
}

std::uint64_t ControlChannel::patience_with(const OutMessage& message) const noexcept {
    return message.patience_ns ? message.patience_ns : give_up_after_ns_;
}

bool ControlChannel::waits(OutMessage& message) noexcept {
    if (!sender_ || message.stalled.refusal(patience_with(message), message.patience_ns != 0)) return false;
    wants_room_ = asks_again_ = true;
    blocked_.insert(message.destination);
    return true;
}

/// Its peer took nothing a moment ago. Who has less patience than others asks all the same: their refusals
/// do not count for it, and behind them it would find out as late as they do that nobody is there.
bool ControlChannel::blocks(const OutMessage& message) noexcept {
    const bool rests = connects_ && message.stalled.rests();
    if (rests) {
        asks_again_ = true;
        blocked_.insert(message.destination);
    }
    if (patience_with(message) < give_up_after_ns_) return rests;
    return blocked_.contains(message.destination);
}

/// One sender after the other was replaced under it: it would keep a slot for ever.
bool ControlChannel::is_lost(const OutMessage& message) const noexcept {
    return now_ns() - message.interrupted_at >= patience_with(message);
}

fabric::PostResult ControlChannel::post(const OutMessage& message, Slot& slot, std::size_t length) noexcept {
    if (!sender_) return fabric::PostResult::again;
    const auto result =
        connects_ && !message.is_answered
            ? sender_->post_confirmed_send(slot, slot.buffer, length, sends_->descriptor, message.destination)
            : sender_->post_send(slot, slot.buffer, length, sends_->descriptor, message.destination);
    if (result == fabric::PostResult::again) ++counters_.refusals;
    if (result == fabric::PostResult::failed) ++counters_.errors;
    return result;
}

void ControlChannel::cancel_all() noexcept {
    // First the list, which runs through the messages themselves: once one is done it is its owner's again.
    sweep_.end(pending_);
    while (!pending_.empty()) {
        OutMessage& message = *pending_.pop_front();
        pending_.prepend(message.behind);
        message.exhausted = true;
        if (message.in_flight == 0) message.done(message, Status::canceled);
    }
    if (answers_) answers_->cancel_all();
    for (Slot& slot : *sends_) {
        if (slot.posted || slot.interrupted) slot.message->fragment_done(Status::canceled);
    }
    while (const auto fragment = refused_.pop())
        fragment->message->fragment_done(Status::canceled);
}

void ControlChannel::on_sent(fabric::OpContext& op, const fabric::Completion& completion) noexcept {
    Slot& slot = static_cast<Slot&>(op);
    ControlChannel& channel = *slot.channel;
    if (channel.closing_ && completion.status != Status::ok) {
        slot.interrupted = true;
        return;
    }
    slot.next = channel.free_sends_;
    channel.free_sends_ = &slot;
    if (!channel.asides_.empty() && !completion.receiver_not_ready) [[unlikely]]
        channel.note_heard_of(slot.message->destination, completion.status);
    channel.end_sent(slot, completion);
}

/// Of a slot that is in no list of others any more, or free again.
void ControlChannel::end_sent(Slot& slot, const fabric::Completion& completion) noexcept {
    OutMessage& message = *slot.message;
    count(message, -1);
    if (completion.receiver_not_ready && keep_refused(slot)) return;
    slot.refused.reset();
    counters_.count_sent(completion.status == Status::ok, slot.length);
    if (completion.status == Status::remote_disconnect && !completion.receiver_not_ready && sender_) {
        sender_->broke(message.destination);
        // What was posted had a connection: whoever broke it took this along. Where nobody is there, no other
        // is made.
        message.lost = message.lost || connects_;
    }
    message.fragment_done(completion.receiver_not_ready ? Status::remote_disconnect : completion.status);
}

/// Returns false when the message stays pending.
bool ControlChannel::post_fragments(OutMessage& message, bool& sent) noexcept {
    while (message.status == Status::ok) {
        if (has_enough(message) || !find_slot()) {
            wants_room_ = true;
            return false;
        }
        Slot& slot = *free_sends_;
        const std::size_t length = message.fill(message, {slot.buffer, fragment_limit_});
        const auto result = post(message, slot, length);
        if (result == fabric::PostResult::again) {
            if (waits(message)) return false;
            RAILYARD_LOG(debug, rail_.c_str(), "a control message was given up: the peer takes nothing");
            if (!message.patience_ns) give_up_on(message.destination);
            message.status = Status::remote_disconnect;
            break;
        }
        if (result == fabric::PostResult::failed) {
            message.status = fabric::classify_failure(fabric::Codes::unread, sender_->last_error(), 0);
            break;
        }
        take_slot(message, length);
        message.stalled.reset();
        ++message.in_flight;
        sent = true;
        if (!message.advance(message)) break;
    }
    message.exhausted = true;
    return true;
}

bool ControlChannel::post_pending() noexcept {
    receives_.post_missing();
    if (answers_) answers_->post_missing_receives();
    blocked_.begin_pass();
    wants_room_ = asks_again_ = false;
    if (in_flight_ == 0 && sends_->size() > send_slots) take_slots_away();
    bool sent = post_interrupted();
    const bool all = waiting_behind_.is_due(!refused_.empty());
    if (all || !sender_ || !given_up_.empty()) sent |= end_refused();
    sent |= send_refused();
    PendingList<OutMessage> kept;
    while (!pending_.empty() && may_have_slot() && !blocked_.full()) {
        OutMessage& message = *pending_.pop_front();
        if (all) pending_.prepend(message.behind);
        const bool wanted = !over(message);
        if (wanted && answered(message)) {
            WaitingBehind::let_next_in(message, pending_);
            sent = true;
        } else if (wanted && blocks(message)) {
            waiting_behind_.keep(message, first_of(message), kept);
        } else if (wanted && (waits_for_refused(message) || !post_fragments(message, sent))) {
            kept.push_back(message);
        } else {
            WaitingBehind::let_next_in(message, pending_);
            if (message.in_flight != 0) continue;
            message.done(message, message.status);
            sent = true;
        }
    }
    wants_room_ |= !pending_.empty();
    asks_again_ |= blocked_.full();
    if (all) waiting_behind_.looked(pending_.empty() && !blocked_.is_sweeping(), blocked_.full());
    sweep_.end_pass(pending_, kept, blocked_);
    given_up_.clear();
    return sent;
}

/// A peer without a receive buffer has seen nothing of the fragment: it is sent again, in growing pauses.
/// False when that has gone on for too long.
bool ControlChannel::keep_refused(Slot& slot) noexcept {
    OutMessage& message = *slot.message;
    std::unique_ptr<RefusedFragment> fragment = std::move(slot.refused);
    if (message.status != Status::ok) return false;
    if (!fragment) {
        fragment.reset(new (std::nothrow) RefusedFragment);
        if (!fragment) return false;
        fragment->message = &message;
        fragment->length = slot.length;
        std::memcpy(fragment->bytes.data(), slot.buffer, slot.length);
    }
    if (fragment->refused(give_up_after_ns_)) {
        RAILYARD_LOG(warn, rail_.c_str(),
                     "a control message was given up: the peer had no receive buffer for %llu ms",
                     static_cast<unsigned long long>(give_up_after_ns_ / 1'000'000));
        give_up_on(message.destination);
        return false;
    }
    refused_.put(std::move(fragment));
    return true;
}

/// What its peer has refused goes first; what else is for it waits behind this one.
bool ControlChannel::waits_for_refused(OutMessage& message) noexcept {
    if (!refused_.holds(message.destination)) return false;
    if (!message.patience_ns) blocked_.insert(message.destination, &message);
    return true;
}

/// Fragments beside those that are out again.
std::size_t ControlChannel::may_repeat() const noexcept {
    const auto repeated = std::count_if(sends_->begin(), sends_->end(),
                                        [](const Slot& slot) { return slot.posted && slot.refused; });
    return most_again - std::min(most_again, static_cast<std::size_t>(repeated));
}

/// Sends what is due; true if anything went out or ended.
bool ControlChannel::send_refused() noexcept {
    if (refused_.empty()) return false;
    bool worked = false;
    const std::uint64_t now = now_ns();
    for (std::size_t more = refused_.due(now) ? may_repeat() : 0; more > 0; --more) {
        if (!refused_.due(now) || !find_slot()) break;
        std::unique_ptr<RefusedFragment> fragment = refused_.pop_due(now);
        OutMessage& message = *fragment->message;
        const Resent result = has_failed(message) ? Resent::over : send_again(fragment);
        if (result == Resent::waits) {
            refused_.put(std::move(fragment));
            continue;
        }
        worked = true;
        if (result == Resent::over) message.fragment_done(message.status);
    }
    return worked;
}

/// Of a message of which fragments were refused: nothing more of it is sent.
bool ControlChannel::has_failed(OutMessage& message) const noexcept {
    if (message.status == Status::ok)
        message.status = !sender_ || is_unreachable(message) ? Status::remote_disconnect : message.wanted();
    return message.status != Status::ok;
}

/// Those of messages that have failed; true if there were some.
bool ControlChannel::end_refused() noexcept {
    bool any = false;
    refused_.take_those([this](OutMessage& message) { return has_failed(message); },
                        [&any](const std::unique_ptr<RefusedFragment>& fragment) {
                            any = true;
                            fragment->message->fragment_done(fragment->message->status);
                        });
    return any;
}

/// `over`: the message has failed. Takes the fragment where it is sent. There is a free slot.
ControlChannel::Resent ControlChannel::send_again(std::unique_ptr<RefusedFragment>& fragment) noexcept {
    OutMessage& message = *fragment->message;
    Slot& slot = *free_sends_;
    std::memcpy(slot.buffer, fragment->bytes.data(), fragment->length);
    switch (post(message, slot, fragment->length)) {
        case fabric::PostResult::ok:
            break;
        case fabric::PostResult::again:
            if (!fragment->refused(give_up_after_ns_)) return Resent::waits;
            give_up_on(message.destination);
            message.status = Status::remote_disconnect;
            return Resent::over;
        case fabric::PostResult::failed:
            message.status = fabric::classify_failure(fabric::Codes::unread, sender_->last_error(), 0);
            return Resent::over;
    }
    ++counters_.repeats;
    take_slot(message, fragment->length);
    slot.refused = std::move(fragment);
    return Resent::sent;
}

/// What waits behind a message that was given up does not wait as long again.
void ControlChannel::give_up_on(PeerAddress peer) noexcept {
    given_up_.insert(peer);
}

/// It goes over the connection that its question came on. Tried once.
bool ControlChannel::answered(OutMessage& message) noexcept {
    if (message.asker == no_address) return false;
    if (answers_ && message.removals == removals_ && answers_->send(message)) return true;
    message.asker = no_address;
    return false;
}

/// Over its path: its peer took nothing for too long, or answers on others. Probes are to find that out.
bool ControlChannel::is_unreachable(const OutMessage& message) const noexcept {
    const bool left = message.path && message.path->is_left() && message.asker == no_address;
    return given_up_.contains(message.destination) || (left && !message.patience_ns);
}

/// Nothing more of it is to be sent.
bool ControlChannel::over(OutMessage& message) const noexcept {
    if (message.status == Status::ok)
        message.status = is_unreachable(message) ? Status::remote_disconnect : message.wanted();
    if (message.status == Status::ok) return false;
    message.exhausted = true;
    return true;
}

}  // namespace railyard
