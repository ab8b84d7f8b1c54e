#include "rail/control_channel.h"

#include <span>
#include <utility>

#include "common/log.h"
#include "rail/rail.h"

namespace railyard {

ControlChannel::ControlChannel(const fabric::Domain& domain, fabric::Endpoint& endpoint, ControlSink& sink,
                               std::uint64_t give_up_after_ns)
    : receiver_(endpoint),
      sink_(sink),
      give_up_after_ns_(give_up_after_ns),
      rail_(domain.rail()),
      buffers_(std::make_unique<std::byte[]>(pinned_bytes)),
      receives_(receive_slots),
      sends_(std::make_shared<Slots>(send_slots)) {
    if (domain.caps().local_descriptors) {
        region_ = fabric::MemoryRegion(domain, endpoint,
                                       {reinterpret_cast<std::uint64_t>(buffers_.get()), pinned_bytes});
    }
    std::byte* buffer = buffers_.get();
    for (Slot& slot : receives_) {
        slot.channel = this;
        slot.buffer = std::exchange(buffer, buffer + fragment_size);
        slot.handler = on_received;
        post_receive(slot);
    }
    for (Slot& slot : *sends_) {
        slot.channel = this;
        slot.buffer = std::exchange(buffer, buffer + fragment_size);
        slot.handler = on_sent;
        slot.next = free_sends_;
        free_sends_ = &slot;
    }
}

std::shared_ptr<void> ControlChannel::begin_renewal() {
    next_sends_ = std::make_shared<Slots>(send_slots);
    closing_ = true;
    return sends_;
}

void ControlChannel::end_renewal(fabric::Endpoint* sender) noexcept {
    closing_ = false;
    sender_ = sender;
    free_sends_ = interrupted_ = nullptr;
    for (std::size_t i = 0; i < send_slots; ++i) {
        Slot& old = (*sends_)[i];
        Slot& slot = (*next_sends_)[i];
        slot.channel = this;
        slot.handler = on_sent;
        slot.buffer = old.buffer;
        slot.interrupted = old.posted || old.interrupted;
        old.handler = [](fabric::OpContext&, const fabric::Completion&) noexcept {};
        if (slot.interrupted) {
            slot.message = old.message;
            slot.length = old.length;
        }
        Slot*& list = slot.interrupted ? interrupted_ : free_sends_;
        slot.next = list;
        list = &slot;
    }
    sends_ = std::move(next_sends_);
}

bool ControlChannel::gives_up(OutMessage& message) const noexcept {
    return message.stalled.refusal(message.patience_ns ? message.patience_ns : give_up_after_ns_);
}

/// Returns false while some have to wait.
bool ControlChannel::post_interrupted() noexcept {
    while (interrupted_) {
        if (!sender_) return false;
        Slot& slot = *interrupted_;
        OutMessage& message = *slot.message;
        const auto result =
            sender_->post_send(slot, slot.buffer, slot.length, region_.descriptor(), message.destination);
        if (result == fabric::PostResult::again && !gives_up(message)) return false;
        interrupted_ = slot.next;
        slot.interrupted = false;
        if (result == fabric::PostResult::ok) continue;
        slot.next = free_sends_;
        free_sends_ = &slot;
        --in_flight_;
        end_fragment(message, Status::remote_disconnect);
    }
    return true;
}

void ControlChannel::cancel_all() noexcept {
    // First the list, which runs through the messages themselves: once one is done it is its owner's again.
    while (!pending_.empty()) {
        OutMessage& message = *pending_.pop_front();
        message.exhausted = true;
        if (message.in_flight == 0) message.done(message, Status::canceled);
    }
    for (Slot& slot : *sends_) {
        if (slot.posted || slot.interrupted) end_fragment(*slot.message, Status::canceled);
    }
}

void ControlChannel::post_receive(Slot& slot) noexcept {
    if (receiver_.post_receive(slot, slot.buffer, fragment_size, region_.descriptor()) ==
        fabric::PostResult::ok)
        return;
    RAILYARD_LOG(error, rail_.c_str(), "one of %zu receive buffers could not be posted and is lost: %s",
                 receive_slots, fi_strerror(receiver_.last_error()));
}

void ControlChannel::on_received(fabric::OpContext& op, const fabric::Completion& completion) noexcept {
    Slot& slot = static_cast<Slot&>(op);
    if (completion.status == Status::ok) {
        slot.channel->sink_.on_control({slot.buffer, completion.length});
    } else if (completion.error == FI_ECANCELED) {
        return;  // the endpoint is closing
    }
    slot.channel->post_receive(slot);
}

void ControlChannel::on_sent(fabric::OpContext& op, const fabric::Completion& completion) noexcept {
    Slot& slot = static_cast<Slot&>(op);
    ControlChannel& channel = *slot.channel;
    OutMessage& message = *slot.message;
    if (channel.closing_ && completion.status != Status::ok) {
        slot.interrupted = true;
        return;
    }
    slot.next = channel.free_sends_;
    channel.free_sends_ = &slot;
    --channel.in_flight_;
    channel.end_fragment(message, completion.status);
}

void ControlChannel::end_fragment(OutMessage& message, Status status) noexcept {
    if (status != Status::ok && message.status == Status::ok) message.status = status;
    // After the first failure the rest is not sent: post_fragments sees the status and drops it.
    if (--message.in_flight == 0 && message.exhausted) message.done(message, message.status);
}

/// Returns false when the message stays pending.
bool ControlChannel::post_fragments(OutMessage& message, BlockedSet& blocked, bool& sent) noexcept {
    while (message.status == Status::ok) {
        if (!free_sends_) return false;
        Slot& slot = *free_sends_;
        const std::size_t length = message.fill(message, {slot.buffer, fragment_size});
        const auto result =
            sender_ ? sender_->post_send(slot, slot.buffer, length, region_.descriptor(), message.destination)
                    : fabric::PostResult::again;
        if (result == fabric::PostResult::again) {
            if (!gives_up(message)) {
                blocked.insert(message.destination);
                return false;
            }
            RAILYARD_LOG(debug, rail_.c_str(), "a control message was given up: the peer takes nothing");
            message.status = Status::remote_disconnect;
            break;
        }
        if (result == fabric::PostResult::failed) {
            message.status = fabric::classify_failure(false, sender_->last_error(), 0);
            break;
        }
        free_sends_ = slot.next;
        slot.message = &message;
        slot.length = length;
        message.stalled.reset();
        ++message.in_flight;
        ++in_flight_;
        sent = true;
        if (!message.advance(message)) break;
    }
    message.exhausted = true;
    return true;
}

bool ControlChannel::post_pending() noexcept {
    bool sent = false;
    if (!post_interrupted()) return sent;
    BlockedSet blocked;
    PendingList<OutMessage> kept;
    while (!pending_.empty() && free_sends_ && !blocked.full()) {
        OutMessage& message = *pending_.pop_front();
        if (blocked.contains(message.destination) || !post_fragments(message, blocked, sent)) {
            kept.push_back(message);
        } else if (message.in_flight == 0) {
            message.done(message, message.status);
            sent = true;
        }
    }
    pending_.prepend(kept);
    return sent;
}

}  // namespace railyard
