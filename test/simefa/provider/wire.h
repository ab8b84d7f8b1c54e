// Operations under way, by the time they are due.
#pragma once

#include <cstdint>
#include <vector>

#include "provider/clock.h"
#include "provider/operation.h"

namespace simefa {

/// Guarded by the domain's lock. Times that never decrease cost a list; the others (jitter, retries) a heap.
class Wire {
  public:
    explicit Wire(std::size_t capacity) { heap_.reserve(capacity); }

    void push(Operation& operation) noexcept;
    /// Takes one that is due at `now`, null for none. With `shuffle` any of the first few that are due.
    Operation* pop_due(std::uint64_t now, Random* shuffle) noexcept;
    /// When the next one is due; UINT64_MAX: none.
    [[nodiscard]] std::uint64_t next_due() const noexcept;
    /// Takes any; null when empty.
    Operation* pop_any() noexcept;
    [[nodiscard]] bool empty() const noexcept { return in_order_.empty() && heap_.empty(); }

  private:
    Operation* pop_first(std::uint64_t now) noexcept;

    OperationList in_order_;
    std::vector<Operation*> heap_;
    std::uint64_t next_order_ = 0;
};

}  // namespace simefa
