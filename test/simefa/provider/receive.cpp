#include "provider/receive.h"

#include <algorithm>

#include "provider/user_wait.h"

namespace simefa {
namespace {

constexpr std::uint32_t look_ahead = 64;  // slots behind one that a slow sender holds
constexpr std::uint64_t sender_check_interval =
    1'000'000;  // ns between two looks at whether that sender lives

SlotState state_of(const std::atomic<std::uint64_t>& word) noexcept {
    return SlotState::unpack(word.load());
}

bool is(const SlotState& state, std::uint32_t ticket, SlotPhase phase) noexcept {
    return state.ticket == ticket && state.phase == phase;
}

template <class Slot>
void wait_for_claims(Slot* slots, std::uint32_t mask, std::uint32_t begin, std::uint32_t end,
                     const DomainRecord& domain) noexcept {
    for (std::uint32_t ticket = begin; ticket != end; ++ticket) {
        UserWait wait;
        SlotState state;
        do {
            state = state_of(slots[ticket & mask].state);
        } while (state.phase == SlotPhase::claimed &&
                 wait.go_on(domain.users[state.user % user_slots].owner.load()));
    }
}

}  // namespace

ReceiveQueue::ReceiveQueue(EndpointRecord& record, const DomainRecord& domain, std::size_t depth) noexcept
    : record_(record), domain_(domain), depth_(static_cast<std::uint32_t>(depth)) {
    for (std::uint32_t ticket = 0; ticket < notice_slots; ++ticket)
        post_notice(ticket);
}

bool ReceiveQueue::post(const Segment* segments, std::size_t count, std::uint64_t context) noexcept {
    if (posted_ - tail_ >= depth_) return false;
    ReceiveSlot& slot = record_.receives[posted_ & record_.receive_mask];
    slot.segment_count = static_cast<std::uint32_t>(count);
    std::copy_n(segments, count, slot.segments);
    slot.context = context;
    slot.state.store(SlotState{posted_, 0, SlotPhase::posted}.pack(), std::memory_order_release);
    ++posted_;
    return true;
}

void ReceiveQueue::post_notice(std::uint32_t ticket) noexcept {
    record_.notices[ticket % notice_slots].state.store(SlotState{ticket, 0, SlotPhase::posted}.pack(),
                                                       std::memory_order_release);
}

bool ReceiveQueue::sender_died(std::uint16_t user, std::uint64_t now) noexcept {
    if (now < next_check_) return false;
    next_check_ = now + sender_check_interval;
    return !is_alive(domain_.users[user % user_slots].owner.load());
}

bool ReceiveQueue::take_message(std::uint32_t ticket, Arrivals& sink) noexcept {
    ReceiveSlot& slot = record_.receives[ticket & record_.receive_mask];
    if (!is(state_of(slot.state), ticket, SlotPhase::filled)) return false;
    // Copied first: once consumed the slot may be posted again, by the sink itself too.
    ReceiveSlot copy;
    copy.segment_count = slot.segment_count;
    copy.flags = slot.flags;
    std::copy_n(slot.segments, slot.segment_count, copy.segments);
    copy.context = slot.context;
    copy.length = slot.length;
    copy.data = slot.data;
    copy.source = slot.source;
    slot.state.store(SlotState{ticket, 0, SlotPhase::consumed}.pack(), std::memory_order_release);
    if (ticket == tail_) ++tail_;
    if (copy.flags & receive_failed) {
        post(copy.segments, copy.segment_count, copy.context);
    } else {
        sink.message_arrived(copy);
    }
    return true;
}

std::size_t ReceiveQueue::drain_messages(Arrivals& sink, std::size_t limit, std::uint64_t now) noexcept {
    std::size_t taken = 0;
    while (taken < limit && tail_ != posted_) {
        ReceiveSlot& slot = record_.receives[tail_ & record_.receive_mask];
        const SlotState state = state_of(slot.state);
        if (is(state, tail_, SlotPhase::consumed)) {
            ++tail_;
        } else if (take_message(tail_, sink)) {
            ++taken;
        } else if (!is(state, tail_, SlotPhase::claimed)) {
            break;
        } else if (sender_died(state.user, now)) {
            std::uint64_t word = state.pack();
            if (!slot.state.compare_exchange_strong(word, SlotState{tail_, 0, SlotPhase::consumed}.pack()))
                continue;
            ++tail_;
            post(slot.segments, slot.segment_count, slot.context);
        } else {
            const std::uint32_t end = tail_ + std::min<std::uint32_t>(look_ahead, posted_ - tail_);
            for (std::uint32_t ticket = tail_ + 1; ticket != end && taken < limit; ++ticket)
                taken += take_message(ticket, sink);
            break;
        }
    }
    return taken;
}

bool ReceiveQueue::take_notice(std::uint32_t ticket, Arrivals& sink) noexcept {
    NoticeSlot& slot = record_.notices[ticket % notice_slots];
    if (!is(state_of(slot.state), ticket, SlotPhase::filled)) return false;
    sink.notice_arrived(slot);
    slot.state.store(SlotState{ticket, 0, SlotPhase::consumed}.pack(), std::memory_order_release);
    return true;
}

std::size_t ReceiveQueue::drain_notices(Arrivals& sink, std::size_t limit, std::uint64_t now) noexcept {
    std::size_t taken = 0;
    while (taken < limit) {
        NoticeSlot& slot = record_.notices[notice_tail_ % notice_slots];
        const SlotState state = state_of(slot.state);
        if (take_notice(notice_tail_, sink)) {
            ++taken;
        } else if (is(state, notice_tail_, SlotPhase::claimed)) {
            std::uint64_t word = state.pack();
            if (!sender_died(state.user, now)) {
                for (std::uint32_t i = 1; i < look_ahead && taken < limit; ++i)
                    taken += take_notice(notice_tail_ + i, sink);
                break;
            }
            slot.state.compare_exchange_strong(word, SlotState{notice_tail_, 0, SlotPhase::consumed}.pack());
            continue;
        } else if (!is(state, notice_tail_, SlotPhase::consumed)) {
            break;
        }
        if (!is(state_of(slot.state), notice_tail_, SlotPhase::consumed)) continue;
        post_notice(notice_tail_ + notice_slots);
        ++notice_tail_;
    }
    return taken;
}

std::size_t ReceiveQueue::progress(Arrivals& sink, std::size_t limit, std::uint64_t now) noexcept {
    const std::size_t messages = drain_messages(sink, limit, now);
    return messages + drain_notices(sink, limit, now);
}

bool ReceiveQueue::busy() const noexcept {
    auto arriving = [](const SlotState& state, std::uint32_t ticket) {
        return state.ticket == ticket && state.phase != SlotPhase::posted && state.phase != SlotPhase::empty;
    };
    if (tail_ != posted_ && arriving(state_of(record_.receives[tail_ & record_.receive_mask].state), tail_))
        return true;
    return arriving(state_of(record_.notices[notice_tail_ % notice_slots].state), notice_tail_);
}

void ReceiveQueue::close() noexcept {
    record_.state.store(EndpointState::closed);
    wait_for_claims(record_.receives, record_.receive_mask, tail_, posted_, domain_);
    wait_for_claims(record_.notices, notice_slots - 1, notice_tail_, notice_tail_ + notice_slots, domain_);
}

}  // namespace simefa
