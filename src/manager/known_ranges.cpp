#include "manager/known_ranges.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "manager/registration.h"

namespace railyard {

void KnownRange::add(Registration& region) noexcept {
    region.earlier = std::exchange(registered, &region);
}

void KnownRange::remove(const Registration& region) noexcept {
    Registration** at = &registered;
    while (*at && *at != &region)
        at = &(*at)->earlier;
    if (*at) *at = region.earlier;
}

KnownRange& KnownRanges::enter(const KnownRange::Place& place) {
    const MutexLock lock(mutex_);
    if (const auto used = keep_ ? used_.find(place) : used_.end(); used != used_.end()) {
        ++used->second.users;
        return used->second;
    }
    const KnownRange::Names* const before = left_.look(place);
    const KnownRange::Names names = before ? *before : KnownRange::Names{};
    KnownRange& range =
        used_.emplace(std::piecewise_construct, std::tuple(place), std::tuple(place, names))->second;
    left_.remove(place);
    range.users = 1;
    return range;
}

void KnownRanges::leave(KnownRange& range) noexcept {
    const MutexLock lock(mutex_);
    if (--range.users != 0) return;
    if (keep_) {
        try {
            const MutexLock names_lock(range.mutex);
            if (range.names.number != 0) static_cast<void>(left_.add(range.place, range.names));
        } catch (...) {
            // Then it is not known any more.
        }
    }
    const auto [first, last] = used_.equal_range(range.place);
    used_.erase(std::find_if(first, last, [&](const auto& used) { return &used.second == &range; }));
}

}  // namespace railyard
