// Slots in shared memory that one process offers and others fill: receive buffers, notices.
#pragma once

#include <atomic>
#include <cstdint>

namespace simefa {

/// State of one slot in one word, so that a process killed between two instructions leaves nothing undecided:
/// a slot is free to take, taken by a known user, or filled. All slots below the taker's `head` hint were
/// taken in order; whoever finds the hint behind moves it on, so nobody waits for anybody.
///
///   posted (owner) -> claimed (taker, by compare-and-swap) -> filled (taker) -> consumed (owner) -> posted
///   ...
///
/// Atomics: the taker's store of `filled` pairs with the owner's load in `peek`; sequentially consistent
/// where the owner goes to sleep or closes, see EndpointRecord.
enum class SlotPhase : std::uint16_t { empty, posted, claimed, filled, consumed };

struct SlotState {
    std::uint32_t ticket = 0;  ///< how many slots were posted before this one, modulo 2^32
    std::uint16_t user = 0;    ///< of `claimed` and `filled`: index into the owner's user table
    SlotPhase phase = SlotPhase::empty;

    [[nodiscard]] constexpr std::uint64_t pack() const noexcept {
        return std::uint64_t{ticket} << 32 | std::uint64_t{user} << 16 | static_cast<std::uint64_t>(phase);
    }
    static constexpr SlotState unpack(std::uint64_t word) noexcept {
        return {static_cast<std::uint32_t>(word >> 32), static_cast<std::uint16_t>(word >> 16),
                static_cast<SlotPhase>(word & 0xffff)};
    }
};

/// Takes the next posted slot for `user`; null when none is posted. `slots` has `mask` + 1 entries with a
/// member `std::atomic<std::uint64_t> state`. On success `ticket` says which lap it is.
template <class Slot>
Slot* claim(Slot* slots, std::uint32_t mask, std::atomic<std::uint32_t>& head, std::uint16_t user,
            std::uint32_t& ticket) noexcept {
    for (;;) {
        std::uint32_t next = head.load();
        Slot& slot = slots[next & mask];
        std::uint64_t word = slot.state.load();
        const SlotState state = SlotState::unpack(word);
        const auto lead = static_cast<std::int32_t>(state.ticket - next);
        if (lead < 0 || (lead == 0 && state.phase == SlotPhase::empty)) {
            if (head.load() == next) return nullptr;
            continue;
        }
        if (lead == 0 && state.phase == SlotPhase::posted) {
            if (!slot.state.compare_exchange_strong(word, SlotState{next, user, SlotPhase::claimed}.pack()))
                continue;
            ticket = next;
            head.compare_exchange_strong(next, next + 1);
            return &slot;
        }
        head.compare_exchange_strong(next, next + 1);
    }
}

/// The taker is through. False when the owner took the slot back, thinking the taker dead.
template <class Slot>
bool fill(Slot& slot, std::uint32_t ticket, std::uint16_t user) noexcept {
    std::uint64_t word = SlotState{ticket, user, SlotPhase::claimed}.pack();
    return slot.state.compare_exchange_strong(word, SlotState{ticket, user, SlotPhase::filled}.pack());
}

}  // namespace simefa
