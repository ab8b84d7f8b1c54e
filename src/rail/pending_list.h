// The order in which a rail serves what waits, with room to step around blocked destinations.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "rail/work.h"

namespace railyard {

/// Intrusive queue over `next`; role holder only.
template <class Node>
class PendingList {
  public:
    [[nodiscard]] bool empty() const noexcept { return head_ == nullptr; }

    void push_back(Node& node) noexcept {
        node.next = nullptr;
        (tail_ ? tail_->next : head_) = &node;
        tail_ = &node;
    }
    Node* pop_front() noexcept {
        Node* node = head_;
        head_ = node->next;
        if (!head_) tail_ = nullptr;
        return node;
    }
    /// Appends a chain as MpscList::take_all returns it; returns its length.
    std::uint32_t append(Node* chain) noexcept {
        std::uint32_t count = 0;
        for (; chain; ++count) {
            Node* next = chain->next;
            push_back(*chain);
            chain = next;
        }
        return count;
    }
    /// Puts all of `other` in front, keeping both orders.
    void prepend(PendingList& other) noexcept {
        if (other.empty()) return;
        other.tail_->next = head_;
        if (!tail_) tail_ = other.tail_;
        head_ = other.head_;
        other.head_ = other.tail_ = nullptr;
    }

  private:
    Node* head_ = nullptr;
    Node* tail_ = nullptr;
};

/// Destinations that nothing more is tried on in this pass: others go on, and one peer's messages keep their
/// order. Role holder only.
class BlockedSet {
  public:
    [[nodiscard]] bool contains(PeerAddress peer) const noexcept {
        if (count_ == 0) [[likely]]
            return false;
        for (std::size_t at = place(peer); entries_[at].pass == pass_; at = (at + 1) % entries_.size()) {
            if (entries_[at].peer == peer) return true;
        }
        return false;
    }
    void insert(PeerAddress peer) noexcept {
        if (full() || contains(peer)) return;
        std::size_t at = place(peer);
        while (entries_[at].pass == pass_)
            at = (at + 1) % entries_.size();
        entries_[at] = {peer, pass_};
        ++count_;
    }
    void clear() noexcept {
        if (count_ == 0) return;
        ++pass_;
        count_ = 0;
    }
    [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
    /// So many peers block that the endpoint itself must be full: stop the pass.
    [[nodiscard]] bool full() const noexcept { return count_ == most; }

    static constexpr std::size_t most = 96;

  private:
    struct Entry {
        PeerAddress peer = no_address;
        std::uint64_t pass = 0;  ///< an entry of another pass is free
    };
    static std::size_t place(PeerAddress peer) noexcept {
        // Handles are small numbers, or addresses of what is larger than a cache line.
        return (peer ^ (peer >> 7)) % std::tuple_size_v<decltype(entries_)>;
    }

    std::array<Entry, 128> entries_{};
    std::size_t count_ = 0;
    std::uint64_t pass_ = 1;
};

}  // namespace railyard
