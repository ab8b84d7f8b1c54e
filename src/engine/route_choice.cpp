#include "engine/route_choice.h"

#include <algorithm>
#include <array>

#include "common/clock.h"
#include "engine/rate_model.h"

namespace railyard {
namespace {

/// A slow rail is kept for nothing where others, used by several threads, are so many times as fast.
constexpr std::uint64_t much_sooner = 2;

/// Of what is striped over a thread's own rails alone: others' may be idle a moment later.
constexpr std::uint32_t most_chunks_on_own = 1024;

/// Threads beyond these are taken for one.
constexpr std::size_t most_keepers = 32;

/// Who keeps how many of the rails that have not failed.
struct KeptRails {
    struct Count {
        ThreadTag thread = no_thread;
        std::size_t rails = 0;
    };
    KeptRails(std::span<const Route> routes, ThreadTag me) noexcept {
        for (const Route& route : routes) {
            if (route.has_failed()) continue;
            ++rails;
            const ThreadTag keeper = route.rail->keeper().thread();
            if (keeper == me) {
                ++mine;
            } else if (keeper != no_thread) {
                Count& count = of(keeper);
                count.thread = keeper;
                ++count.rails;
            }
        }
    }
    Count& of(ThreadTag thread) noexcept {
        const auto end = others.begin() + static_cast<std::ptrdiff_t>(keepers);
        const auto known =
            std::find_if(others.begin(), end, [&](const Count& count) { return count.thread == thread; });
        if (known != end) return *known;
        if (keepers == most_keepers) return others.back();
        return others[keepers++];
    }
    /// Of who keeps its rail.
    Count& of(const Route& route) noexcept { return of(route.rail->keeper().thread()); }

    std::size_t rails = 0, mine = 0, keepers = 0;
    std::array<Count, most_keepers> others;
};

/// Rails that nobody keeps up to what this thread is to have at most; and as many of others' as bring it to
/// its share.
void take_share(std::span<const Route> routes, ThreadTag me) noexcept {
    KeptRails kept(routes, me);
    const std::size_t threads = kept.keepers + 1;
    const std::size_t least = kept.rails / threads, most = (kept.rails + kept.keepers) / threads;
    for (const Route& route : routes) {
        if (kept.mine >= most) return;
        if (route.has_failed() || route.rail->keeper().thread() != no_thread) continue;
        route.rail->keeper().set(me);
        ++kept.mine;
    }
    while (kept.mine < least) {
        const Route* taken = nullptr;
        for (const Route& route : routes) {
            if (route.has_failed() || !route.rail->keeper().is_other_than(me)) continue;
            if (!taken || kept.of(*taken).rails < kept.of(route).rails) taken = &route;
        }
        if (!taken) return;
        --kept.of(*taken).rails;
        taken->rail->keeper().set(me);
        ++kept.mine;
    }
}

bool is_anothers(ThreadTag keeper, ThreadTag me) noexcept {
    return keeper != me && keeper != no_thread;
}

/// The one through with it first, of those that `takes`; routes.size(): none.
template <class Takes>
std::size_t first_through(std::span<const Route> routes, std::uint32_t chunks, Takes&& takes) noexcept {
    std::size_t best = routes.size();
    for (std::size_t i = 0; i < routes.size(); ++i) {
        if (!takes(routes[i])) continue;
        if (best == routes.size() || routes[i].rail->ends_before(*routes[best].rail, chunks)) best = i;
    }
    return best;
}

/// Another one is so much sooner through with it than `own` that it is worth meeting its keeper there.
bool worth_meeting(const Rail& other, const Rail& own, std::uint32_t chunks) noexcept {
    return much_sooner * (other.load() + chunks) * own.weight() <
           std::uint64_t{own.load() + chunks} * other.weight();
}

/// The thread gets its share, if it may keep any. True: others keep some rails, and it does, too.
bool keeps_share(std::span<const Route> routes, OfferTerms terms, ThreadTag me) noexcept {
    bool others = false, nobodys = false, mine = false;
    const auto look = [&] {
        others = nobodys = mine = false;
        for (const Route& route : routes) {
            const ThreadTag keeper = route.rail->keeper().thread();
            others = others || is_anothers(keeper, me);
            if (is_anothers(keeper, me) || route.has_failed()) continue;  // see choose_rail
            mine = mine || keeper == me;
            nobodys = nobodys || keeper == no_thread;
        }
    };
    look();
    if (terms.may_keep && (nobodys || !mine)) {
        take_share(routes, me);
        look();
    }
    return others && mine;
}

/// Many small chunks cost threads more than wires: what is under way goes to and fro between their caches.
bool is_batch_of_small(const Transfer& transfer, const Lane& lane) noexcept {
    return lane.size() <= most_chunks_on_own &&
           transfer.total_bytes <= RateModel::small_bytes * transfer.chunks.size();
}

/// What the thread has posted of late is no more than its rails' share of what all threads have, as a look
/// now and then finds: it would get no more of the others' rails than they would of its own.
bool posts_its_share(Callers& callers, std::span<const Route> routes, std::uint64_t bytes,
                     ThreadTag me) noexcept {
    Callers::Place& mine = callers.mine();
    if (mine.count_batch(bytes)) {
        std::uint64_t own = 0, all = 0;
        for (const Route& route : routes) {
            if (route.has_failed()) continue;
            const std::uint32_t weight = route.rail->weight();
            all += weight;
            if (route.rail->keeper().thread() == me) own += weight;
        }
        callers.compare(mine, own, all);
    }
    return mine.posts_its_share();
}

/// The thread whose rails alone are to carry a striped lane; no_thread: all do.
ThreadTag rails_for_striped(const Transfer& transfer, const Lane& lane, std::span<const Route> routes,
                            OfferTerms terms, ThreadTag me) noexcept {
    if (!terms.callers || !is_batch_of_small(transfer, lane)) return no_thread;
    const bool kept = keeps_share(routes, terms, me);
    if (!posts_its_share(*terms.callers, routes, transfer.total_bytes, me) || !kept) return no_thread;
    return me;
}

void offer_striped(Transfer& transfer, Transfer::RouteRange all, ShareTerms terms) noexcept {
    const std::span<Submission> offered(transfer.submissions.data() + all.begin, all.end - all.begin);
    const LaneShares shares(offered, terms);
    for (Submission& submission : offered) {
        submission.rearm();
        if (shares.give(submission)) {
            submission.route->rail->submit(submission);
        } else {
            transfer.part_done(Status::ok);  // the others carry its share
        }
    }
}

/// Whatever has failed by the time that it is offered.
std::uint32_t most_submissions(const Transfer& transfer, std::size_t lane) noexcept {
    const Transfer::RouteRange all = transfer.lane_routes[lane];
    return transfer.lanes[lane].striped ? all.end - all.begin - (all.host_first ? 1 : 0) : 1;
}

/// One route carries what several might have.
void spare_others(Transfer& transfer, std::size_t lane) noexcept {
    if (const std::uint32_t most = most_submissions(transfer, lane); most > 1)
        transfer.part_done(Status::ok, most - 1);
}

void offer_undivided(Transfer& transfer, std::size_t lane, std::size_t route) noexcept {
    spare_others(transfer, lane);
    Submission& submission = transfer.submissions[route];
    Rail& rail = *submission.route->rail;
    submission.rearm();
    submission.undivided = true;
    submission.share = UINT32_MAX;
    // As a whole at once, unless it had better come in pieces, between those of others.
    if (rail.bytes_under_way() < Rail::most_bytes) submission.run = transfer.lanes[lane].take_alone();
    rail.submit(submission);
}

/// Its rails have enough to do to be busy without a part of each block. One whose chunks tell the peer of
/// themselves has as many of them either way.
bool goes_undivided(const Transfer& transfer, const Lane& striped, std::span<const Route> routes,
                    Callers* callers) noexcept {
    if (striped.undivided_from == UINT64_MAX || transfer.immediate) return false;
    std::uint64_t under_way = 0;
    for (const Route& route : routes)
        under_way += route.rail->bytes_under_way();
    const bool busy = under_way >= striped.undivided_from;
    return callers ? callers->mine().count_block(busy) : busy;
}

}  // namespace

RailChoice choose_rail(std::span<const Route> routes, std::uint32_t chunks, ThreadTag me,
                       bool may_keep) noexcept {
    const auto any = [](const Route& route) { return !route.has_failed(); };
    const auto own = [me](const Route& route) {
        return route.rail->keeper().thread() == me && !route.has_failed();
    };
    // Nearly always all of them are the thread's own, or its share is. The paths of others' rails are not
    // looked at: each operation of theirs writes to those.
    bool others = false, nobodys = false;
    std::size_t best = first_through(routes, chunks, [&](const Route& route) {
        const ThreadTag keeper = route.rail->keeper().thread();
        others = others || is_anothers(keeper, me);
        if (is_anothers(keeper, me) || route.has_failed()) return false;
        nobodys = nobodys || keeper == no_thread;
        return keeper == me || may_keep;
    });
    if (may_keep && others && (nobodys || best == routes.size())) {
        take_share(routes, me);
        best = first_through(routes, chunks, own);
    }
    if (best == routes.size()) {
        best = first_through(routes, chunks, any);
        return {best == routes.size() ? 0 : best, false, others};
    }
    const Rail& best_own = *routes[best].rail;
    if (others && best_own.weight() < Rail::full_weight) [[unlikely]] {
        const std::size_t first = first_through(routes, chunks, any);
        // By now all of them may have failed.
        if (first != routes.size() && worth_meeting(*routes[first].rail, best_own, chunks))
            return {first, false, true};
    }
    RailKeeper& keeper = routes[best].rail->keeper();
    if (keeper.thread() != me) keeper.set(me);
    return {best, true, others};
}

void look_at_keepers(std::span<const Route> routes, ThreadTag me) noexcept {
    std::uint64_t now = 0;
    for (const Route& route : routes) {
        const ThreadTag keeper = route.rail->keeper().thread();
        if (keeper == me) {
            route.rail->progress();
        } else if (keeper != no_thread) {
            if (now == 0) now = now_ns();
            static_cast<void>(route.rail->is_looked_after(now));
        }
    }
}

LaneShares::LaneShares(std::span<const Submission> offered, ShareTerms terms) noexcept : terms_(terms) {
    for (const Submission& submission : offered) {
        if (leaves_out(submission)) continue;
        if (!last_resort_) last_resort_ = &submission;
        if (!terms.weighted && terms.kept_by == no_thread) return;
        const std::uint32_t weight = weight_of(submission);
        if (weight > most_) last_resort_ = &submission;
        sum_ += weight;
        most_ = std::max(most_, weight);
        least_ = std::min(least_, weight);
    }
}

bool LaneShares::leaves_out(const Submission& submission) const noexcept {
    const Route& route = *submission.route;
    // Others' paths are not looked at, as in choose_rail.
    return (terms_.kept_by != no_thread && route.rail->keeper().thread() != terms_.kept_by) ||
           route.has_failed();
}

std::uint32_t LaneShares::weight_of(const Submission& submission) const noexcept {
    return terms_.weighted ? submission.route->rail->weight() : Rail::full_weight;
}

bool LaneShares::give(Submission& submission) const noexcept {
    const bool last_resort = &submission == last_resort_;
    if (last_resort_ && !last_resort && leaves_out(submission)) return false;
    if (!last_resort_ || (least_ >= most_ && terms_.kept_by == no_thread)) return true;
    const std::uint64_t weight = weight_of(submission);
    const std::uint64_t chunks = submission.lane->size();
    if (last_resort || weight >= most_) {
        const auto fair = static_cast<std::uint32_t>((chunks * weight + sum_ - 1) / sum_);
        submission.share = std::max(fair, submission.lane->run_length);
        return true;
    }
    // As many as end there no later than the rest does elsewhere, if each were handed out where it ends
    // first.
    submission.share = static_cast<std::uint32_t>((chunks + 1) * weight / sum_);
    submission.part_of_rest = static_cast<std::uint32_t>((weight * Submission::whole + sum_ - 1) / sum_);
    return submission.share > 0;
}

std::uint32_t count_submissions(const Transfer& transfer) noexcept {
    if (transfer.submissions.size() == 1) return 1;
    std::uint32_t count = 0;
    for (std::size_t lane = 0; lane < transfer.lanes.size(); ++lane)
        count += most_submissions(transfer, lane);
    return count;
}

void offer(Transfer& transfer, std::uint32_t route) noexcept {
    transfer.submissions[route].rearm();
    transfer.routes[route].rail->submit(transfer.submissions[route]);
}

void offer_lanes(Transfer& transfer, OfferTerms terms) noexcept {
    const ThreadTag me = this_thread_tag();
    const bool looks = terms.callers && terms.callers->mine().count_post();
    bool own = true;
    for (std::size_t lane = 0; lane < transfer.lanes.size(); ++lane) {
        Transfer::RouteRange all = transfer.lane_routes[lane];
        if (all.host_first) {
            if (!transfer.routes[all.begin].has_failed() && !transfer.submissions[all.begin].kept_from_rail) {
                spare_others(transfer, lane);
                offer(transfer, all.begin);
                continue;
            }
            ++all.begin;
        }
        const std::span<const Route> routes(transfer.routes.data() + all.begin, all.end - all.begin);
        const Lane& striped = transfer.lanes[lane];
        const bool undivided = striped.striped && goes_undivided(transfer, striped, routes, terms.callers);
        if (striped.striped && !undivided) {
            const ThreadTag carries = rails_for_striped(transfer, striped, routes, terms, me);
            own = own && carries == me;
            if (looks) look_at_keepers(routes, me);
            offer_striped(transfer, all, {terms.weighted, carries});
            continue;
        }
        const RailChoice choice = choose_rail(routes, transfer.lanes[lane].size(), me, terms.may_keep);
        if (choice.others && looks) look_at_keepers(routes, me);
        own = own && choice.own;
        const auto route = static_cast<std::uint32_t>(all.begin + choice.route);
        if (undivided) {
            offer_undivided(transfer, lane, route);
        } else {
            offer(transfer, route);
        }
    }
    transfer.keeps_to.store(own ? me : no_thread, std::memory_order_relaxed);
}

}  // namespace railyard
