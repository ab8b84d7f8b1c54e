// An engine's registrations, by the ranges that they are of.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "manager/registration.h"

namespace railyard {

struct RangeOfMemory {
    std::uint64_t address = 0;
    std::uint64_t length = 0;  ///< bytes
};

/// Those of one range stand together, the one that was made last behind the others: who looks for the present
/// one of each of many ranges would look through all for each, else. What it goes by does not change while
/// one is kept.
struct ByRange {
    using is_transparent = void;
    using One = std::shared_ptr<Registration>;

    bool operator()(const One& left, const One& right) const noexcept { return key(*left) < key(*right); }
    bool operator()(const One& left, const RangeOfMemory& right) const noexcept {
        return range(*left) < range(right);
    }
    bool operator()(const RangeOfMemory& left, const One& right) const noexcept {
        return range(left) < range(*right);
    }

  private:
    /// With the object itself, as another engine's may have the same number.
    using Key = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, const Registration*>;
    static Key key(const Registration& one) noexcept { return {one.address, one.length, one.number, &one}; }
    template <class Of>
    static std::pair<std::uint64_t, std::uint64_t> range(const Of& of) noexcept {
        return {of.address, of.length};
    }
};

using Registrations = std::set<std::shared_ptr<Registration>, ByRange>;
/// By those that have gone.
using Replacements = std::map<const Registration*, std::shared_ptr<Registration>>;

}  // namespace railyard
