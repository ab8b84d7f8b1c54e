// The order in which a rail serves what waits.
#pragma once

#include <cstdint>

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
    void push_front(Node& node) noexcept {
        node.next = head_;
        head_ = &node;
        if (!tail_) tail_ = &node;
    }
    /// Puts all of `other` behind, keeping both orders.
    void append(PendingList& other) noexcept {
        if (other.empty()) return;
        (tail_ ? tail_->next : head_) = other.head_;
        tail_ = other.tail_;
        other.head_ = other.tail_ = nullptr;
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

}  // namespace railyard
