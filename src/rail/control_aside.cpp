// Control messages of senders that are set aside (FabricRail::set_aside).
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "common/clock.h"
#include "rail/control_channel.h"

namespace railyard {
namespace {

/// What fails before may have been sent before.
constexpr std::uint64_t conclusive_ns = 1'000'000'000;

}  // namespace

ControlChannel::Aside::Aside(ControlChannel& channel, std::shared_ptr<Slots> slots, std::size_t awaited)
    : channel_(&channel), slots_(std::move(slots)), since_(now_ns()) {
    awaited_.reserve(send_slots + awaited);
    channel.asides_.push_back(this);
}

ControlChannel::Aside::~Aside() {
    if (channel_) std::erase(channel_->asides_, this);
}

/// Or where it belongs.
std::vector<ControlChannel::Aside::Awaited>::iterator ControlChannel::Aside::place_of(
    PeerAddress peer) noexcept {
    return std::lower_bound(awaited_.begin(), awaited_.end(), peer,
                            [](const Awaited& one, PeerAddress other) { return one.peer < other; });
}

void ControlChannel::Aside::await(PeerAddress peer) noexcept {
    const auto place = place_of(peer);
    if (place != awaited_.end() && place->peer == peer) return;
    if (awaited_.size() < awaited_.capacity()) awaited_.insert(place, {peer, false});
}

bool ControlChannel::Aside::has_heard_of(PeerAddress peer) noexcept {
    const auto place = place_of(peer);
    return place != awaited_.end() && place->peer == peer && place->heard_of;
}

bool ControlChannel::Aside::has_heard_of_all() noexcept {
    return std::all_of(slots_->begin(), slots_->end(),
                       [this](const Slot& slot) { return !slot.posted || has_heard_of(slot.destination); });
}

void ControlChannel::note_heard_of(PeerAddress peer, Status status) noexcept {
    if (status != Status::ok && status != Status::remote_disconnect) return;
    const std::uint64_t now = now_ns();
    for (Aside* aside : asides_) {
        if (status != Status::ok && now - aside->since_ < conclusive_ns) continue;
        const auto place = aside->place_of(peer);
        if (place == aside->awaited_.end() || place->peer != peer || place->heard_of) continue;
        place->heard_of = true;
        aside->certain_ = aside->certain_ && status == Status::ok;
        aside->news_ = true;
    }
}

std::size_t ControlChannel::Slots::posted() const noexcept {
    return static_cast<std::size_t>(
        std::count_if(begin(), end(), [](const Slot& slot) { return slot.posted != 0; }));
}

std::unique_ptr<ControlChannel::Aside> ControlChannel::set_aside(std::size_t awaited, bool goes_on) {
    constexpr std::size_t bytes = send_slots * fragment_size;
    auto next = std::make_shared<Slots>(send_slots);
    next->buffers = std::make_unique_for_overwrite<std::byte[]>(bytes);
    if (domain_.caps().local_descriptors && goes_on) {
        try {
            next->region = fabric::MemoryRegion(
                domain_, receiver_, {reinterpret_cast<std::uint64_t>(next->buffers.get()), bytes});
            next->descriptor = next->region.descriptor();
        } catch (const fabric::DeviceGone&) {
            // No sender will use it: the one that is opened when the device is back has those of the channel.
        }
    }
    std::unique_ptr<Aside> aside(new Aside(*this, sends_, awaited));
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
            slot.destination = old.destination;
            slot.length = old.length;
            slot.refused = std::move(old.refused);
            std::memcpy(slot.buffer, old.buffer, old.length);
        }
        Slot*& list = slot.interrupted ? interrupted_ : free_sends_;
        slot.next = std::exchange(list, &slot);
    }
    for (Slot& old : *aside->slots_) {
        old.handler = on_sent_aside;
        if (old.posted) aside->await(old.destination);
        if (old.posted && old.message->patience_ns) end_as_lost(old, Status::remote_disconnect);
    }
    return aside;
}

void ControlChannel::on_sent_aside(fabric::OpContext& op, const fabric::Completion& completion) noexcept {
    Slot& slot = static_cast<Slot&>(op);
    if (!slot.message) return;
    const auto is_closing = [&](const Aside* aside) {
        const Slots& slots = *aside->slots_;
        return aside->closing_ &&
               std::any_of(slots.begin(), slots.end(), [&](const Slot& one) { return &one == &slot; });
    };
    const auto& asides = slot.channel->asides_;
    slot.interrupted =
        completion.status != Status::ok && std::any_of(asides.begin(), asides.end(), is_closing);
    if (!slot.interrupted) slot.channel->end_sent(slot, completion);
}

/// What its sender was closed with is sent again, ahead of what is for the same peers.
void ControlChannel::take_back(Aside& aside) noexcept {
    for (Slot& slot : *aside.slots_) {
        if (!(slot.posted || slot.interrupted) || !slot.message) continue;
        OutMessage& message = *slot.message;
        if (message.interrupted_at == 0) message.interrupted_at = now_ns();
        std::unique_ptr<RefusedFragment> fragment = std::move(slot.refused);
        if (!fragment) {
            fragment.reset(new (std::nothrow) RefusedFragment);
            if (fragment) std::memcpy(fragment->bytes.data(), slot.buffer, slot.length);
        }
        if (!fragment || is_lost(message)) {
            end_as_lost(slot, Status::remote_disconnect);
            continue;
        }
        fragment->message = std::exchange(slot.message, nullptr);
        fragment->length = slot.length;
        fragment->due_ns = 0;
        count(message, -1);
        refused_.put(std::move(fragment));
    }
    forget(aside);
}

void ControlChannel::forget(Aside& aside) noexcept {
    std::erase(asides_, &aside);
    aside.channel_ = nullptr;
}

/// Somebody else may be called so next.
void ControlChannel::forget(PeerAddress peer) noexcept {
    for (Aside* aside : asides_) {
        std::erase_if(aside->awaited_, [=](const Aside::Awaited& one) { return one.peer == peer; });
        for (Slot& slot : *aside->slots_) {
            if (!slot.message && slot.destination == peer) slot.destination = no_address;
        }
    }
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
