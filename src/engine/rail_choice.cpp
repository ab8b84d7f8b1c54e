#include "engine/rail_choice.h"

#include <algorithm>
#include <array>

#include "rail/rail.h"

namespace railyard {
namespace {

bool has_failed(const Route& route) noexcept {
    return route.path && route.path->failed();
}

/// Threads beyond these are taken for one.
constexpr std::size_t most_keepers = 32;

/// Who keeps how many of the rails that have not failed.
struct Shares {
    struct Share {
        ThreadTag thread = no_thread;
        std::size_t rails = 0;
    };
    Shares(std::span<const Route> routes, ThreadTag me) noexcept {
        for (const Route& route : routes) {
            if (has_failed(route)) continue;
            ++rails;
            const ThreadTag keeper = route.rail->keeper().thread();
            if (keeper == me) {
                ++mine;
            } else if (keeper != no_thread) {
                Share& share = of(keeper);
                share.thread = keeper;
                ++share.rails;
            }
        }
    }
    Share& of(ThreadTag thread) noexcept {
        const auto end = others.begin() + static_cast<std::ptrdiff_t>(count);
        const auto known =
            std::find_if(others.begin(), end, [&](const Share& share) { return share.thread == thread; });
        if (known != end) return *known;
        if (count == most_keepers) return others.back();
        return others[count++];
    }

    /// Of who keeps its rail.
    Share& of(const Route& route) noexcept { return of(route.rail->keeper().thread()); }

    std::size_t rails = 0, mine = 0, count = 0;
    std::array<Share, most_keepers> others;
};

/// Rails that nobody keeps up to what this thread is to have at most; and as many of others' as bring it to
/// its share.
void take_share(std::span<const Route> routes, ThreadTag me) noexcept {
    Shares shares(routes, me);
    const std::size_t threads = shares.count + 1;
    const std::size_t least = shares.rails / threads, most = (shares.rails + shares.count) / threads;
    for (const Route& route : routes) {
        if (shares.mine >= most) return;
        if (has_failed(route) || route.rail->keeper().thread() != no_thread) continue;
        route.rail->keeper().set(me);
        ++shares.mine;
    }
    while (shares.mine < least) {
        const Route* taken = nullptr;
        for (const Route& route : routes) {
            if (has_failed(route) || !route.rail->keeper().is_other_than(me)) continue;
            if (!taken || shares.of(*taken).rails < shares.of(route).rails) taken = &route;
        }
        if (!taken) return;
        --shares.of(*taken).rails;
        taken->rail->keeper().set(me);
        ++shares.mine;
    }
}

/// The least loaded of those that `takes` agrees to; routes.size(): none.
template <class Takes>
std::size_t least_loaded(std::span<const Route> routes, Takes&& takes) noexcept {
    std::size_t best = routes.size();
    for (std::size_t i = 0; i < routes.size(); ++i) {
        if (has_failed(routes[i]) || !takes(routes[i].rail->keeper().thread())) continue;
        if (best == routes.size() || routes[i].rail->load() < routes[best].rail->load()) best = i;
    }
    return best;
}

}  // namespace

RailChoice choose_rail(std::span<const Route> routes, ThreadTag me, bool may_keep) noexcept {
    // Nearly always all of them are the thread's own, or its share is.
    bool others = false, nobodys = false;
    std::size_t best = least_loaded(routes, [&](ThreadTag keeper) {
        others = others || (keeper != me && keeper != no_thread);
        nobodys = nobodys || keeper == no_thread;
        return keeper == me || (keeper == no_thread && may_keep);
    });
    if (may_keep && others && (nobodys || best == routes.size())) {
        take_share(routes, me);
        best = least_loaded(routes, [&](ThreadTag keeper) { return keeper == me; });
    }
    if (best != routes.size()) {
        RailKeeper& keeper = routes[best].rail->keeper();
        if (keeper.thread() != me) keeper.set(me);
        return {best, true, others};
    }
    best = least_loaded(routes, [](ThreadTag) { return true; });
    return {best == routes.size() ? 0 : best, false, others};
}

}  // namespace railyard
