// A bounded table that forgets what was not asked for longest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <utility>

namespace railyard {

/// By 64-bit numbers. What is forgotten or removed is handed to the caller, who may hold a lock under which
/// it must not be destroyed. One thread at a time.
template <class Value>
class RecentTable {
  public:
    /// Holds `most` entries, at least one.
    explicit RecentTable(std::size_t most) : most_(most) {}
    /// nullptr for a number that is not there. Counts as use; the pointer holds until the next change.
    [[nodiscard]] Value* find(std::uint64_t number) {
        const auto found = index_.find(number);
        if (found == index_.end()) return nullptr;
        entries_.splice(entries_.begin(), entries_, found->second);
        return &found->second->second;
    }
    /// Adds a number that is not there; returns what had to go for it, if anything.
    [[nodiscard]] std::optional<Value> add(std::uint64_t number, Value value) {
        entries_.emplace_front(number, std::move(value));
        index_.emplace(number, entries_.begin());
        if (entries_.size() <= most_) return std::nullopt;
        return remove(entries_.back().first);
    }
    std::optional<Value> remove(std::uint64_t number) {
        const auto found = index_.find(number);
        if (found == index_.end()) return std::nullopt;
        std::optional<Value> gone = std::move(found->second->second);
        entries_.erase(found->second);
        index_.erase(found);
        return gone;
    }
    [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
    /// Pairs of number and value, the last used first.
    [[nodiscard]] auto begin() const noexcept { return entries_.begin(); }
    [[nodiscard]] auto end() const noexcept { return entries_.end(); }

  private:
    using Entries = std::list<std::pair<std::uint64_t, Value>>;

    const std::size_t most_;
    Entries entries_;  // the last used first
    std::unordered_map<std::uint64_t, typename Entries::iterator> index_;
};

}  // namespace railyard
