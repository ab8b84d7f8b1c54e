#include "rail/control_channel.h"

#include <span>

#include "common/log.h"
#include "rail/rail.h"

namespace railyard {

ControlChannel::ControlChannel(const fabric::Domain& domain, fabric::Endpoint& endpoint, ControlSink& sink,
                               std::uint64_t give_up_after_ns)
    : endpoint_(endpoint),
      sink_(sink),
      give_up_after_ns_(give_up_after_ns),
      rail_(domain.rail()),
      buffers_(std::make_unique<std::byte[]>(pinned_bytes)),
      slots_(send_slots + receive_slots) {
    if (domain.caps().local_descriptors) {
        region_ = fabric::MemoryRegion(domain, endpoint,
                                       {reinterpret_cast<std::uint64_t>(buffers_.get()), pinned_bytes});
    }
    std::size_t index = 0;
    for (Slot& slot : slots_) {
        slot.channel = this;
        slot.buffer = buffers_.get() + fragment_size * index;
        if (index++ < receive_slots) {
            slot.handler = on_received;
            post_receive(slot);
        } else {
            slot.handler = on_sent;
            slot.next = free_sends_;
            free_sends_ = &slot;
        }
    }
}

void ControlChannel::cancel_all() noexcept {
    // First the list, which runs through the messages themselves: once one is done it is its owner's again.
    while (!pending_.empty()) {
        OutMessage& message = *pending_.pop_front();
        message.exhausted = true;
        if (message.in_flight == 0) message.done(message, Status::canceled);
    }
    for (Slot& slot : slots_) {
        if (slot.posted && slot.message) end_fragment(*slot.message, Status::canceled);
    }
}

void ControlChannel::post_receive(Slot& slot) noexcept {
    if (endpoint_.post_receive(slot, slot.buffer, fragment_size, region_.descriptor()) ==
        fabric::PostResult::ok)
        return;
    RAILYARD_LOG(error, rail_.c_str(), "one of %zu receive buffers could not be posted and is lost: %s",
                 receive_slots, fi_strerror(endpoint_.last_error()));
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
            endpoint_.post_send(slot, slot.buffer, length, region_.descriptor(), message.destination);
        if (result == fabric::PostResult::again) {
            if (!message.stalled.refusal(give_up_after_ns_)) {
                blocked.insert(message.destination);
                return false;
            }
            RAILYARD_LOG(warn, rail_.c_str(),
                         "a control message was given up: the peer took nothing for %llu ms",
                         static_cast<unsigned long long>(give_up_after_ns_ / 1'000'000));
            message.status = Status::remote_disconnect;
            break;
        }
        if (result == fabric::PostResult::failed) {
            message.status = fabric::classify_failure(false, endpoint_.last_error(), 0);
            break;
        }
        free_sends_ = slot.next;
        slot.message = &message;
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
