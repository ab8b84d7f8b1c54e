#include "rail/receive_slots.h"

#include <rdma/fi_errno.h>

#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "common/occasional.h"
#include "rail/rail.h"
#include "rail/refused_fragments.h"

namespace railyard {

ReceiveSlots::ReceiveSlots(std::string rail, std::byte* buffers, std::size_t count, ControlSink& sink,
                           ControlCounters& counters)
    : rail_(std::move(rail)), sink_(sink), counters_(counters), slots_(count) {
    for (Slot& slot : slots_) {
        slot.owner = this;
        slot.buffer = std::exchange(buffers, buffers + OutMessage::longest_fragment);
        slot.handler = on_received;
    }
}

void ReceiveSlots::open(fabric::Endpoint& endpoint, void* descriptor) noexcept {
    endpoint_ = &endpoint;
    descriptor_ = descriptor;
    for (Slot& slot : slots_)
        post(slot);
}

void ReceiveSlots::abandon() noexcept {
    for (Slot& slot : slots_)
        slot.handler = [](fabric::OpContext&, const fabric::Completion&) noexcept {};
}

void ReceiveSlots::post(Slot& slot) noexcept {
    if (!endpoint_) return;
    const auto result = endpoint_->post_receive(slot, slot.buffer, OutMessage::longest_fragment, descriptor_);
    if (result == fabric::PostResult::ok) return;
    if (worth_a_line(++refused_)) {
        RAILYARD_LOG(error, rail_.c_str(),
                     "a receive buffer was not taken: %s; %zu of %zu are missing and offered again",
                     result == fabric::PostResult::again ? "try again" : fi_strerror(endpoint_->last_error()),
                     missing_count_ + 1, slots_.size());
    }
    miss(slot);
}

void ReceiveSlots::miss(Slot& slot) noexcept {
    slot.next = std::exchange(missing_, &slot);
    ++missing_count_;
    holds_messages_ = holds_messages_ || slot.full;
    due_ns_ = now_ns() + RefusedFragment::first_pause_ns;
}

void ReceiveSlots::post_missing() noexcept {
    if (!missing_ || now_ns() < due_ns_) return;
    Slot* slot = std::exchange(missing_, nullptr);
    missing_count_ = 0;
    holds_messages_ = false;
    while (slot) {
        Slot* const next = slot->next;
        // After the first refusal the others wait for the next time.
        if (missing_ || !hand_on(*slot)) {
            miss(*slot);
        } else {
            post(*slot);
        }
        slot = next;
    }
    if (missing_) due_ns_ = now_ns() + RefusedFragment::longest_pause_ns;
}

/// What there is in it. False: it stays there.
bool ReceiveSlots::hand_on(Slot& slot) noexcept {
    if (!slot.full || sink_.on_control({slot.buffer, slot.length})) {
        slot.full = false;
        return true;
    }
    if (worth_a_line(++too_much_)) {
        RAILYARD_LOG(
            error, rail_.c_str(),
            "no memory for a message that has come: it waits in its receive buffer, and is tried again");
    }
    return false;
}

/// What is said to be longer than its buffer is not there, whatever the provider means by it.
void ReceiveSlots::refuse(std::size_t length) noexcept {
    if (worth_a_line(++too_long_)) {
        RAILYARD_LOG(error, rail_.c_str(),
                     "refused a message of %zu bytes: its receive buffer has %zu (%llu such so far)", length,
                     OutMessage::longest_fragment, static_cast<unsigned long long>(too_long_));
    }
}

void ReceiveSlots::on_received(fabric::OpContext& op, const fabric::Completion& completion) noexcept {
    Slot& slot = static_cast<Slot&>(op);
    ReceiveSlots& owner = *slot.owner;
    if (completion.status == Status::ok) {
        if (completion.length > OutMessage::longest_fragment) {
            owner.refuse(completion.length);
        } else if (!completion.immediate) {
            ++owner.counters_.fragments_received;
            owner.counters_.bytes_received += completion.length;
            slot.length = completion.length;
            slot.full = true;
            if (!owner.hand_on(slot)) return owner.miss(slot);
        }
    } else if (completion.error == FI_ECANCELED) {
        // The endpoint is closing, or a connection broke in the middle of a message.
        return owner.miss(slot);
    }
    owner.post(slot);
}

}  // namespace railyard
