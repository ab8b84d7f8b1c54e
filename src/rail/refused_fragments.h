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

    /// Waits for longer after each refusal. True: they have gone on for `limit_ns` now.
    [[nodiscard]] bool refused(std::uint64_t limit_ns) noexcept {
        if (stalled.refusal(limit_ns)) return true;
        due_ns = now_ns() + pause_ns;
        pause_ns = std::min(pause_ns * 2, longest_pause_ns);
        return false;
    }

    std::unique_ptr<RefusedFragment> next;
    OutMessage* message = nullptr;
    std::size_t length = 0;
    std::uint64_t due_ns = 0;
    std::uint64_t pause_ns = first_pause_ns;
    StallClock stalled;
    std::array<std::byte, OutMessage::longest_fragment> bytes;
};

/// Those of one rail that are not in flight, oldest first; at most as many a peer as there are send buffers.
/// Role holder only.
class RefusedFragments {
  public:
    [[nodiscard]] bool empty() const noexcept { return !first_; }
    void put(std::unique_ptr<RefusedFragment> fragment) noexcept {
        std::unique_ptr<RefusedFragment>* end = &first_;
        while (*end)
            end = &(*end)->next;
        *end = std::move(fragment);
    }
    /// The oldest; nullptr when there is none.
    std::unique_ptr<RefusedFragment> pop() noexcept {
        std::unique_ptr<RefusedFragment> oldest = std::move(first_);
        if (oldest) first_ = std::move(oldest->next);
        return oldest;
    }
    /// True while one for `peer` waits: what is meant for it later need not try.
    [[nodiscard]] bool holds(PeerAddress peer) const noexcept {
        for (const RefusedFragment* each = first_.get(); each; each = each->next.get()) {
            if (each->message->destination == peer) return true;
        }
        return false;
    }

  private:
    std::unique_ptr<RefusedFragment> first_;
};

}  // namespace railyard
