// A bounded table that forgets what was not asked for longest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <new>
#include <optional>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace railyard {

/// By 64-bit numbers, or by what has an order and is no number, bounded in entries and in what they weigh
/// together. What is forgotten or removed is handed to the caller, who may hold a lock under which it must
/// not be destroyed. One thread at a time.
template <class Value, class Number = std::uint64_t>
class RecentTable {
  public:
    /// Holds `most` entries, at least one, of `most_weight` in all, or one that weighs more.
    explicit RecentTable(std::size_t most, std::size_t most_weight = SIZE_MAX)
        : most_(most), most_weight_(most_weight) {}
    /// nullptr for a number that is not there. Counts as use; the pointer holds until the next change.
    [[nodiscard]] Value* find(const Number& number) {
        Entry* const entry = use(number);
        return entry ? &entry->value : nullptr;
    }
    /// The same without counting as use.
    [[nodiscard]] const Value* look(const Number& number) const {
        const auto found = index_.find(number);
        return found == index_.end() ? nullptr : &found->second->value;
    }
    /// Adds a number that is not there; returns what had to go for it.
    [[nodiscard]] std::vector<Value> add(const Number& number, Value value, std::size_t weight = 1) {
        Entries added;  // either may throw
        added.push_front({number, weight, std::move(value)});
        index_.emplace(number, added.begin());
        entries_.splice(entries_.begin(), added);
        weight_ += weight;
        return shrink();
    }
    /// What it weighs from now on, if it is there. Counts as use; returns what had to go for it.
    [[nodiscard]] std::vector<Value> weigh(const Number& number, std::size_t weight) {
        Entry* const entry = use(number);
        if (!entry) return {};
        weight_ += weight - entry->weight;
        entry->weight = weight;
        return shrink();
    }
    std::optional<Value> remove(const Number& number) {
        const auto found = index_.find(number);
        if (found == index_.end()) return std::nullopt;
        std::optional<Value> gone = std::move(found->second->value);
        erase(found);
        return gone;
    }
    /// All from `first` on and below `last`; where they have an order.
    void remove_between(const Number& first, const Number& last) {
        for (auto found = index_.lower_bound(first); found != index_.end() && found->first < last;)
            found = erase(found);
    }
    [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
    [[nodiscard]] std::size_t weight() const noexcept { return weight_; }

    struct Entry {
        Number number{};
        std::size_t weight = 0;
        Value value;
    };
    /// Entries, the last used first.
    [[nodiscard]] auto begin() const noexcept { return entries_.begin(); }
    [[nodiscard]] auto end() const noexcept { return entries_.end(); }

  private:
    using Entries = std::list<Entry>;
    using Place = typename Entries::iterator;
    using Index = std::conditional_t<std::is_integral_v<Number>, std::unordered_map<Number, Place>,
                                     std::map<Number, Place>>;

    [[nodiscard]] Entry* use(const Number& number) {
        const auto found = index_.find(number);
        if (found == index_.end()) return nullptr;
        entries_.splice(entries_.begin(), entries_, found->second);
        return &*found->second;
    }
    typename Index::iterator erase(typename Index::iterator found) {
        weight_ -= found->second->weight;
        entries_.erase(found->second);
        return index_.erase(found);
    }
    /// What there is no memory to hand out stays until the next change.
    std::vector<Value> shrink() noexcept {
        std::vector<Value> gone;
        while (entries_.size() > most_ || (weight_ > most_weight_ && entries_.size() > 1)) {
            try {
                if (gone.size() == gone.capacity()) gone.reserve(2 * gone.size() + 1);
            } catch (const std::bad_alloc&) {
                break;
            }
            gone.push_back(*remove(entries_.back().number));
        }
        return gone;
    }

    const std::size_t most_;
    const std::size_t most_weight_;
    std::size_t weight_ = 0;
    Entries entries_;  // the last used first
    Index index_;
};

}  // namespace railyard
