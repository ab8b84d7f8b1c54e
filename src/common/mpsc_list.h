// Intrusive hand-over list: many threads push nodes, one thread at a time takes them all.
#pragma once

#include <atomic>

namespace railyard {

/// `Node` has a `Node* next` member that the list owns while the node is inside. No allocation, no capacity,
/// no lock. A node is in at most one list at a time. take_all is safe from several threads too, but its order
/// promise (oldest first) then holds per call only.
/// Memory order: push's exchange publishes the node's fields to take_all's exchange. Both are sequentially
/// consistent because Rail::submit pairs them with the role's flag.
template <class Node>
class MpscList {
  public:
    void push(Node& node) noexcept {
        Node* head = head_.load(std::memory_order_relaxed);
        do {
            node.next = head;
        } while (
            !head_.compare_exchange_weak(head, &node, std::memory_order_seq_cst, std::memory_order_relaxed));
    }

    /// Removes everything, oldest first, linked through `next`; nullptr when there was nothing.
    [[nodiscard]] Node* take_all() noexcept {
        if (empty()) return nullptr;
        Node* newest = head_.exchange(nullptr, std::memory_order_seq_cst);
        Node* oldest = nullptr;
        while (newest) {
            Node* older = newest->next;
            newest->next = oldest;
            oldest = newest;
            newest = older;
        }
        return oldest;
    }

    [[nodiscard]] bool empty() const noexcept { return head_.load(std::memory_order_seq_cst) == nullptr; }

  private:
    std::atomic<Node*> head_{nullptr};
};

}  // namespace railyard
