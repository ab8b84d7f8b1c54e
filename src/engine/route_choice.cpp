#include "engine/route_choice.h"

#include <algorithm>

namespace railyard {
namespace {

/// The host rail's, while it has not failed; else all routes of a striped lane, or the one whose rail is
/// through with it first, of those that have not failed.
Transfer::RouteRange choose_routes(const Transfer& transfer, std::size_t lane) noexcept {
    Transfer::RouteRange all = transfer.lane_routes[lane];
    if (all.host_first) {
        if (!transfer.routes[all.begin].has_failed()) return {all.begin, all.begin + 1};
        ++all.begin;
    }
    if (transfer.lanes[lane].striped) return all;
    const std::uint32_t chunks = transfer.lanes[lane].size();
    std::uint32_t first = all.begin;
    for (std::uint32_t i = all.begin + 1; i < all.end; ++i) {
        const Route &route = transfer.routes[i], &best = transfer.routes[first];
        if (route.has_failed()) continue;
        if (best.has_failed() || route.rail->ends_before(*best.rail, chunks)) first = i;
    }
    return {first, first + 1};
}

/// Whatever has failed by the time that it is offered.
std::uint32_t most_submissions(const Transfer& transfer, std::size_t lane) noexcept {
    const Transfer::RouteRange all = transfer.lane_routes[lane];
    return transfer.lanes[lane].striped ? all.end - all.begin - (all.host_first ? 1 : 0) : 1;
}

}  // namespace

LaneShares::LaneShares(std::span<const Submission> offered, bool weighted) noexcept {
    for (const Submission& submission : offered) {
        if (submission.route->has_failed()) continue;
        if (!last_resort_) last_resort_ = &submission;
        if (!weighted) return;
        const std::uint32_t weight = submission.route->rail->weight();
        if (weight > most_) last_resort_ = &submission;
        sum_ += weight;
        most_ = std::max(most_, weight);
        least_ = std::min(least_, weight);
    }
}

bool LaneShares::give(Submission& submission) const noexcept {
    const bool last_resort = &submission == last_resort_;
    if (last_resort_ && !last_resort && submission.route->has_failed()) return false;
    if (least_ >= most_) return true;
    const std::uint64_t weight = submission.route->rail->weight();
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

void offer_lanes(Transfer& transfer, bool weighted) noexcept {
    for (std::size_t lane = 0; lane < transfer.lanes.size(); ++lane) {
        const Transfer::RouteRange chosen = choose_routes(transfer, lane);
        const std::span<Submission> offered(transfer.submissions.data() + chosen.begin,
                                            chosen.end - chosen.begin);
        // One carries what several might have.
        for (std::size_t i = offered.size(); i < most_submissions(transfer, lane); ++i)
            transfer.part_done(Status::ok);
        const LaneShares shares(offered, weighted);
        for (Submission& submission : offered) {
            submission.rearm();
            if (shares.give(submission)) {
                submission.route->rail->submit(submission);
            } else {
                transfer.part_done(Status::ok);  // the others carry its share
            }
        }
    }
}

}  // namespace railyard
