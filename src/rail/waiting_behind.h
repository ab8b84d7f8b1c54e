// What waits for the same as another does, out of the way of a pass over all that waits.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/clock.h"
#include "rail/pending_list.h"

namespace railyard {

/// Of the nodes of one list of a rail, which have a `PendingList<Node> behind`. Role holder only.
class WaitingBehind {
  public:
    /// `node` waits behind `first`, with what has waited behind it; where there is no such node it is kept.
    template <class Node>
    void keep(Node& node, Node* first, PendingList<Node>& kept) noexcept {
        if (!first) return kept.push_back(node);
        first->behind.push_back(node);
        first->behind.append(node.behind);
        any_ = true;
    }
    /// `first` waits no more: who has its place, with the others behind it; nullptr: there is none.
    template <class Node>
    [[nodiscard]] static Node* successor_of(Node& first) noexcept {
        if (first.behind.empty()) return nullptr;
        Node* const next = first.behind.pop_front();
        next->behind.append(first.behind);
        return next;
    }
    /// The same; that one is tried next.
    template <class Node>
    static void let_next_in(Node& first, PendingList<Node>& pending) noexcept {
        if (Node* const next = successor_of(first)) pending.push_front(*next);
    }

    /// `first` waits for what none of them does: they are tried next.
    template <class Node>
    [[gnu::noinline]] static void let_all_in(Node& first, PendingList<Node>& pending) noexcept {
        pending.prepend(first.behind);
    }

    /// Whether it is time for a pass over all, as some may have been stopped; it ends with looked().
    /// `others`: it is for others that wait, too.
    [[nodiscard]] bool is_due(bool others = false) noexcept {
        if (!any_ && !others) return false;
        const std::uint64_t now = now_ns();
        if (now < look_at_) return false;
        look_at_ = now;
        any_ = false;
        return true;
    }
    /// Now; the longer that took, the less often. Not `whole`: there are some that the pass has not come to.
    /// The next one is over all, too, where it `goes_on`.
    void looked(bool whole, bool goes_on) noexcept {
        any_ |= !whole;
        const std::uint64_t now = now_ns();
        look_at_ = goes_on ? now : now + std::clamp(16 * (now - look_at_), pause_ns, longest_pause_ns);
    }

  private:
    /// Whoever stops a transfer waits for 20 ms before a sender is replaced for it, and a pass posts for
    /// others, too, which may take its time.
    static constexpr std::uint64_t pause_ns = 2'000'000, longest_pause_ns = 8'000'000;

    bool any_ = false;
    std::uint64_t look_at_ = 0;  // ns; during a pass over all, when that began
};

}  // namespace railyard
