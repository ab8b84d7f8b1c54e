#include "provider/wire.h"

#include <algorithm>

namespace simefa {
namespace {

constexpr std::size_t shuffle_window = 16;

bool later(const Operation* a, const Operation* b) noexcept {
    return a->due != b->due ? a->due > b->due : a->order > b->order;
}

}  // namespace

void Wire::push(Operation& operation) noexcept {
    operation.order = next_order_++;
    if (in_order_.empty() || operation.due >= in_order_.back()->due) {
        in_order_.push_back(operation);
        return;
    }
    heap_.push_back(&operation);
    std::push_heap(heap_.begin(), heap_.end(), later);
}

std::uint64_t Wire::next_due() const noexcept {
    const std::uint64_t listed = in_order_.empty() ? UINT64_MAX : in_order_.front()->due;
    return heap_.empty() ? listed : std::min(listed, heap_.front()->due);
}

Operation* Wire::pop_first(std::uint64_t now) noexcept {
    const bool from_heap = !heap_.empty() && (in_order_.empty() || later(in_order_.front(), heap_.front()));
    if (from_heap) {
        if (heap_.front()->due > now) return nullptr;
        std::pop_heap(heap_.begin(), heap_.end(), later);
        Operation* operation = heap_.back();
        heap_.pop_back();
        return operation;
    }
    if (in_order_.empty() || in_order_.front()->due > now) return nullptr;
    return &in_order_.pop_front();
}

Operation* Wire::pop_due(std::uint64_t now, Random* shuffle) noexcept {
    Operation* first = pop_first(now);
    if (!first || !shuffle) return first;
    Operation* window[shuffle_window] = {first};
    std::size_t count = 1;
    while (count < shuffle_window && (window[count] = pop_first(now)))
        ++count;
    std::swap(window[0], window[shuffle->below(count)]);
    for (std::size_t i = 1; i < count; ++i)
        push(*window[i]);
    return window[0];
}

Operation* Wire::pop_any() noexcept {
    return pop_first(UINT64_MAX);
}

}  // namespace simefa
