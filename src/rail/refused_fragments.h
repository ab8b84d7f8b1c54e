// Fragments that a peer had no receive buffer for, waiting to be sent again.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "rail/stall_clock.h"
#include "rail/work.h"

namespace railyard {

/// A fragment with its bytes, so that the send buffers stay with peers that take what they are sent.
struct RefusedFragment {
    static constexpr std::uint64_t first_pause_ns = 50'000;
    static constexpr std::uint64_t longest_pause_ns = 10'000'000;
    static constexpr std::uint8_t most_doublings = 8;
    static_assert(first_pause_ns << most_doublings >= longest_pause_ns);

    /// Waits for longer after each refusal. True: they have gone on for `limit_ns` now.
    [[nodiscard]] bool refused(std::uint64_t limit_ns) noexcept {
        if (stalled.refusal(limit_ns)) return true;
        doublings = doublings == none ? std::uint8_t{0}
                                      : std::min(static_cast<std::uint8_t>(doublings + 1), most_doublings);
        due_ns = now_ns() + std::min(first_pause_ns << doublings, longest_pause_ns);
        return false;
    }

    static constexpr std::uint8_t none = 0xff;
    OutMessage* message = nullptr;
    std::size_t length = 0;
    std::uint64_t due_ns = 0;
    std::uint8_t doublings = none;  ///< of the pause that it is in
    StallClock stalled;
    std::array<std::byte, OutMessage::longest_fragment> bytes;

  private:
    friend class RefusedFragments;
    RefusedFragment* next_ = nullptr;        // of those with the same pause
    RefusedFragment* next_there_ = nullptr;  // of those with a destination of the same place
    PeerAddress destination_ = no_address;
};

/// Those of one rail that are not in flight; at most as many a peer as there are send buffers. Nothing here
/// takes longer where there are many. Role holder only.
class RefusedFragments {
  public:
    RefusedFragments() = default;
    ~RefusedFragments() {
        while (pop()) {
        }
    }
    RefusedFragments(const RefusedFragments&) = delete;
    RefusedFragments& operator=(const RefusedFragments&) = delete;

    [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
    void put(std::unique_ptr<RefusedFragment> fragment) noexcept {
        RefusedFragment& one = *fragment.release();
        ++count_;
        one.destination_ = one.message->destination;
        one.next_there_ = std::exchange(place_of(one.destination_), &one);
        append(queues_[queue_of(one)], one);
    }
    /// One that has waited for its pause; nullptr when there is none.
    [[nodiscard]] const RefusedFragment* due(std::uint64_t now) const noexcept {
        for (const Queue& queue : queues_) {
            if (queue.first && queue.first->due_ns <= now) return queue.first;
        }
        return nullptr;
    }
    /// That one, or any; nullptr when there is none.
    std::unique_ptr<RefusedFragment> pop_due(std::uint64_t now) noexcept {
        const RefusedFragment* const one = due(now);
        return one ? pop_from(queues_[queue_of(*one)]) : nullptr;
    }
    std::unique_ptr<RefusedFragment> pop() noexcept { return pop_due(UINT64_MAX); }
    /// Hands those to `end`, which owns them then, whose message `is_over`.
    template <class IsOver, class End>
    void take_those(IsOver is_over, End end) noexcept {
        for (Queue& queue : queues_) {
            RefusedFragment* one = std::exchange(queue, {}).first;
            while (one) {
                RefusedFragment* const next = one->next_;
                if (is_over(*one->message)) {
                    end(taken_out(one));
                } else {
                    append(queue, *one);
                }
                one = next;
            }
        }
    }
    /// True while one for `peer` waits: what is meant for it later need not try.
    [[nodiscard]] bool holds(PeerAddress peer) const noexcept {
        if (count_ == 0) [[likely]]
            return false;
        const RefusedFragment* one = places_[place(peer)];
        while (one && one->destination_ != peer)
            one = one->next_there_;
        return one != nullptr;
    }

  private:
    /// In the order of their moments: all of one have the same pause.
    struct Queue {
        RefusedFragment* first = nullptr;
        RefusedFragment* last = nullptr;
    };
    static std::size_t queue_of(const RefusedFragment& one) noexcept {
        return one.doublings == RefusedFragment::none ? 0 : one.doublings;
    }
    static constexpr std::size_t place(PeerAddress peer) noexcept {
        return static_cast<std::size_t>(std::uint64_t{peer} * 0x9e37'79b9'7f4a'7c15 >> (64 - place_bits));
    }
    RefusedFragment*& place_of(PeerAddress peer) noexcept { return places_[place(peer)]; }
    std::unique_ptr<RefusedFragment> pop_from(Queue& queue) noexcept {
        RefusedFragment* const one = queue.first;
        queue.first = one->next_;
        if (!queue.first) queue.last = nullptr;
        return taken_out(one);
    }
    /// Of a queue.
    std::unique_ptr<RefusedFragment> taken_out(RefusedFragment* one) noexcept {
        RefusedFragment** link = &place_of(one->destination_);
        while (*link != one)
            link = &(*link)->next_there_;
        *link = one->next_there_;
        --count_;
        return std::unique_ptr<RefusedFragment>(one);
    }
    static void append(Queue& queue, RefusedFragment& one) noexcept {
        one.next_ = nullptr;
        (queue.last ? queue.last->next_ : queue.first) = &one;
        queue.last = &one;
    }

    static constexpr unsigned place_bits = 8;
    std::array<Queue, RefusedFragment::most_doublings + 1> queues_;
    std::array<RefusedFragment*, std::size_t{1} << place_bits> places_{};
    std::size_t count_ = 0;
};

}  // namespace railyard
