// Registrations by what peers call them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "manager/registration.h"

namespace railyard {

/// Those of one range have one token. One thread at a time.
class TokenTable {
  public:
    /// Throws std::bad_alloc.
    void add(std::shared_ptr<Registration> region) {
        const std::uint64_t token = region->token;
        by_token_.emplace(token, std::move(region));
    }
    /// One that was not added changes nothing.
    void remove(const Registration& region) noexcept {
        const auto [first, last] = by_token_.equal_range(region.token);
        const auto found =
            std::find_if(first, last, [&](const auto& known) { return known.second.get() == &region; });
        if (found != last) by_token_.erase(found);
    }
    /// One that is not being deregistered, until the next change; nullptr: there is none.
    [[nodiscard]] const std::shared_ptr<Registration>* find(std::uint64_t token) const noexcept {
        const auto [first, last] = by_token_.equal_range(token);
        const auto found = std::find_if(first, last, [](const auto& known) {
            return !known.second->revoked.load(std::memory_order_acquire);
        });
        return found == last ? nullptr : &found->second;
    }

  private:
    std::multimap<std::uint64_t, std::shared_ptr<Registration>> by_token_;
};

}  // namespace railyard
