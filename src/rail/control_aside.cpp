// Control messages of senders that are set aside (FabricRail::set_aside).
#include <algorithm>
#include <cstring>
#include <utility>

#include "rail/control_channel.h"

namespace railyard {

std::size_t ControlChannel::Aside::unended() const noexcept {
    return static_cast<std::size_t>(
        std::count_if(slots_->begin(), slots_->end(), [](const Slot& slot) { return slot.posted != 0; }));
}

std::size_t ControlChannel::with_sender() const noexcept {
    return static_cast<std::size_t>(
        std::count_if(sends_->begin(), sends_->end(), [](const Slot& slot) { return slot.posted != 0; }));
}

std::unique_ptr<ControlChannel::Aside> ControlChannel::set_aside() {
    constexpr std::size_t bytes = send_slots * fragment_size;
    auto next = std::make_shared<Slots>(send_slots);
    next->buffers = std::make_unique_for_overwrite<std::byte[]>(bytes);
    if (domain_.caps().local_descriptors) {
        next->region = fabric::MemoryRegion(domain_, receiver_,
                                            {reinterpret_cast<std::uint64_t>(next->buffers.get()), bytes});
        next->descriptor = next->region.descriptor();
    }
    std::unique_ptr<Aside> aside(new Aside(sends_));
    sender_ = nullptr;
    free_sends_ = interrupted_ = nullptr;
    sends_ = std::move(next);
    for (std::size_t i = 0; i < send_slots; ++i) {
        Slot& old = (*aside->slots_)[i];
        Slot& slot = (*sends_)[i];
        slot.channel = this;
        slot.handler = on_sent;
        slot.buffer = sends_->buffers.get() + i * fragment_size;
        slot.interrupted = std::exchange(old.interrupted, false);
        if (slot.interrupted) {  // of a sender that was closed, and no other has had it
            slot.message = old.message;
            slot.length = old.length;
            slot.refused = std::move(old.refused);
            std::memcpy(slot.buffer, old.buffer, old.length);
        }
        Slot*& list = slot.interrupted ? interrupted_ : free_sends_;
        slot.next = std::exchange(list, &slot);
    }
    for (Slot& old : *aside->slots_) {
        old.handler = [](fabric::OpContext& op, const fabric::Completion& completion) noexcept {
            Slot& ended = static_cast<Slot&>(op);
            if (ended.message) ended.channel->end_sent(ended, completion);
        };
        if (old.posted && old.message->patience_ns) end_as_lost(old, Status::remote_disconnect);
    }
    return aside;
}

/// Its bytes stay with the provider.
void ControlChannel::end_as_lost(Slot& slot, Status status) noexcept {
    OutMessage& message = *std::exchange(slot.message, nullptr);
    slot.refused.reset();
    count(message, -1);
    message.lost = true;
    message.fragment_done(status);
}

void ControlChannel::give_up(Aside& aside, Status status) noexcept {
    for (Slot& slot : *aside.slots_) {
        if (slot.posted && slot.message) end_as_lost(slot, status);
    }
}

}  // namespace railyard
