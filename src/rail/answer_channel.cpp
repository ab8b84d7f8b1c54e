#include "rail/answer_channel.h"

#include <utility>

namespace railyard {

AnswerChannel::AnswerChannel(std::string rail, fabric::Endpoint& endpoint, ControlSink& sink,
                             ControlCounters& counters)
    : rail_(std::move(rail)),
      endpoint_(endpoint),
      sink_(sink),
      counters_(counters),
      buffers_(std::make_unique_for_overwrite<std::byte[]>((send_slots + receive_slots) *
                                                           OutMessage::longest_fragment)),
      sends_(send_slots),
      receives_(new_receives()) {
    std::byte* buffer = buffers_.get() + receive_slots * OutMessage::longest_fragment;
    for (Slot& slot : sends_) {
        slot.channel = this;
        slot.buffer = std::exchange(buffer, buffer + OutMessage::longest_fragment);
        slot.handler = on_sent;
        slot.next = std::exchange(free_, &slot);
    }
}

std::shared_ptr<ReceiveSlots> AnswerChannel::new_receives() {
    return std::make_shared<ReceiveSlots>(rail_, buffers_.get(), receive_slots, sink_, counters_);
}

bool AnswerChannel::send(OutMessage& message) noexcept {
    if (free_count_ < longest_message) return false;
    do {
        auto result = fabric::PostResult::again;
        if (free_) {
            free_->length = message.fill(message, {free_->buffer, OutMessage::longest_fragment});
            result = endpoint_.post_send(*free_, free_->buffer, free_->length, nullptr, message.asker);
        }
        if (result != fabric::PostResult::ok) {
            ++counters_.refusals;
            if (message.in_flight == 0) return false;
            message.status = Status::remote_disconnect;  // ends with what is under way of it
            break;
        }
        Slot& slot = *free_;
        slot.message = &message;
        free_ = slot.next;
        --free_count_;
        ++message.in_flight;
    } while (message.advance(message));
    message.exhausted = true;
    return true;
}

void AnswerChannel::on_sent(fabric::OpContext& op, const fabric::Completion& completion) noexcept {
    Slot& slot = static_cast<Slot&>(op);
    AnswerChannel& channel = *slot.channel;
    slot.next = std::exchange(channel.free_, &slot);
    ++channel.free_count_;
    const bool sent = completion.status == Status::ok;
    channel.counters_.count_sent(sent, slot.length);
    slot.message->fragment_done(sent ? Status::ok : Status::remote_disconnect);
}

void AnswerChannel::cancel_all() noexcept {
    for (const Slot& slot : sends_) {
        if (slot.posted) slot.message->fragment_done(Status::canceled);
    }
}

void AnswerChannel::receive_at(fabric::Endpoint& sender) noexcept {
    if (next_receives_) {
        receives_->abandon();
        receives_ = std::move(next_receives_);
    }
    receives_->open(sender, nullptr);
}

std::shared_ptr<void> AnswerChannel::begin_renewal() {
    next_receives_ = new_receives();
    receives_->close();
    return receives_;
}

}  // namespace railyard
