// The send slots of control messages: how many there are, whose they are, and what becomes of them when their
// sender is replaced.
#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "common/clock.h"
#include "rail/control_channel.h"

namespace railyard {

std::size_t ControlChannel::unanswered(std::uint8_t often) noexcept {
    return static_cast<std::size_t>(
        std::count_if(sends_->begin(), sends_->end(), [=](Slot& slot) { return slot.found_again(often); }));
}

void ControlChannel::doubt_unanswered(std::uint8_t often) noexcept {
    for (Slot& slot : *sends_) {
        const bool old = slot.found_again(often);
        if (old && slot.message->path && !slot.message->patience_ns) slot.message->path->doubt();
    }
}

/// Peers that do not look have theirs for as long as they like.
bool ControlChannel::add_slot() noexcept {
    if (!may_have_slot()) return false;
    try {
        auto buffer = std::make_unique_for_overwrite<std::byte[]>(fragment_size);
        Slot& slot = sends_->emplace_back();
        slot.channel = this;
        slot.buffer = buffer.get();
        slot.own_buffer = std::move(buffer);
        slot.handler = on_sent;
        slot.next = std::exchange(free_sends_, &slot);
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

/// While all are free.
void ControlChannel::take_slots_away() noexcept {
    sends_->erase(sends_->begin() + send_slots, sends_->end());
    free_sends_ = nullptr;
    for (Slot& slot : *sends_)
        slot.next = std::exchange(free_sends_, &slot);
}

void ControlChannel::take_slot(OutMessage& message, std::size_t length) noexcept {
    Slot& slot = *free_sends_;
    free_sends_ = slot.next;
    slot.message = &message;
    slot.destination = message.destination;
    slot.length = length;
    count(message, 1);
}

/// Fragments.
std::size_t ControlChannel::under_way_to(PeerAddress peer) const noexcept {
    return static_cast<std::size_t>(std::count_if(sends_->begin(), sends_->end(), [=](const Slot& slot) {
        return slot.destination == peer && (slot.posted || slot.interrupted) && !slot.message->patience_ns;
    }));
}

/// As many as it may have; what is for the same peer waits with it.
bool ControlChannel::has_enough(OutMessage& message) noexcept {
    if (message.patience_ns) return impatient_ >= most_impatient();
    if (in_flight_ < most_to_one) return false;
    const std::size_t others = in_flight_ - impatient_, room = most_sends_ - kept_for_probes();
    const std::size_t may_have = in_flight_ < most_sends_ / 2 ? most_to_one : others < room ? 1 : 0;
    if (may_have != 0 && under_way_to(message.destination) < may_have) return false;
    blocked_.insert(message.destination, &message);
    return true;
}

std::shared_ptr<void> ControlChannel::begin_renewal() {
    using Kept = std::pair<std::shared_ptr<void>, std::shared_ptr<void>>;
    auto kept = std::make_shared<Kept>(sends_, nullptr);
    auto next = std::make_shared<Slots>(sends_->size());
    if (answers_) kept->second = answers_->begin_renewal();
    next_sends_ = std::move(next);
    closing_ = true;
    sender_ = nullptr;
    return kept;
}

void ControlChannel::end_renewal(fabric::Endpoint* sender) noexcept {
    closing_ = false;
    sender_ = sender;
    free_sends_ = interrupted_ = nullptr;
    for (std::size_t i = 0; i < sends_->size(); ++i) {
        Slot& old = (*sends_)[i];
        Slot& slot = (*next_sends_)[i];
        slot.channel = this;
        slot.handler = on_sent;
        slot.buffer = old.buffer;
        slot.own_buffer = std::move(old.own_buffer);
        slot.interrupted = old.posted || old.interrupted;
        old.handler = [](fabric::OpContext&, const fabric::Completion&) noexcept {};
        if (slot.interrupted) {
            slot.message = old.message;
            slot.destination = old.destination;
            if (slot.message->interrupted_at == 0) slot.message->interrupted_at = now_ns();
            slot.length = old.length;
            slot.refused = std::move(old.refused);
        }
        Slot*& list = slot.interrupted ? interrupted_ : free_sends_;
        slot.next = list;
        list = &slot;
    }
    next_sends_->buffers = std::move(sends_->buffers);
    next_sends_->region = std::move(sends_->region);
    next_sends_->descriptor = sends_->descriptor;
    sends_ = std::move(next_sends_);
}

/// What the sender that was replaced had, but for peers that take nothing; true if anything went out or
/// ended.
bool ControlChannel::post_interrupted() noexcept {
    bool worked = false;
    Slot** link = &interrupted_;
    while (*link && !blocked_.half_full()) {  // the rest of a pass is for what has not been sent yet
        Slot& slot = **link;
        OutMessage& message = *slot.message;
        Status ended = message.wanted();
        if (ended == Status::ok && is_lost(message)) {
            message.lost = true;
            ended = Status::remote_disconnect;
        } else if (ended == Status::ok && is_unreachable(message)) {
            ended = Status::remote_disconnect;
        }
        const bool wanted = ended == Status::ok;
        if (wanted && blocks(message)) {
            link = &slot.next;
            continue;
        }
        const auto result = wanted ? post(message, slot, slot.length) : fabric::PostResult::failed;
        if (result == fabric::PostResult::again && waits(message)) {
            link = &slot.next;
            continue;
        }
        *link = slot.next;
        worked = true;
        slot.interrupted = false;
        if (result == fabric::PostResult::ok) {
            ++counters_.repeats;
            message.stalled.reset();
            continue;
        }
        if (wanted) ended = Status::remote_disconnect;
        slot.refused.reset();
        slot.next = free_sends_;
        free_sends_ = &slot;
        count(message, -1);
        message.fragment_done(ended);
    }
    put_last(link);
    return worked;
}

/// Those ahead of it, where there are more peers than a pass tries: the next one begins with the others.
void ControlChannel::put_last(Slot** behind) noexcept {
    if (!*behind || behind == &interrupted_) return;
    Slot* const first = std::exchange(interrupted_, std::exchange(*behind, nullptr));
    Slot** end = &interrupted_;
    while (*end)
        end = &(*end)->next;
    *end = first;
}

}  // namespace railyard
