// Whose chunks go next, and how they are posted.
#include <algorithm>

#include "common/clock.h"
#include "common/log.h"
#include "rail/fabric_rail.h"

namespace railyard {
namespace {

/// Of a peer that takes nothing, when its last operation has failed already: tcp says "again" to whoever
/// wants to connect to a process that has gone.
constexpr std::uint64_t failed_patience_ns = 100'000'000;

}  // namespace

bool FabricRail::post_pending() noexcept {
    bool posted = false;
    blocked_.begin_pass();
    given_up_.clear();
    PendingList<Submission> kept;
    bool full = wants_room_ = asks_again_ = false;
    // Else the first of each peer that has its share; and of what is stopped nobody waits for room.
    const bool all = waiting_behind_.is_due(!pending_.empty() && room() == 0);
    while (!pending_.empty() && (all || room() != 0) && !blocked_.full()) {
        Submission& submission = *pending_.pop_front();
        if (all) pending_.prepend(submission.behind);
        if (blocked_.contains(submission.route->destination) &&
            submission.lane->work->status() == Status::ok) {
            auto* const first = static_cast<Submission*>(blocked_.first_of(submission.route->destination));
            waiting_behind_.keep(submission, first, kept);
            continue;
        }
        const bool alone = pending_.empty() && kept.empty() && submission.behind.empty();
        if (!submission.in_turn && full && !alone && submission.lane->work->status() == Status::ok) {
            kept.push_back(submission);  // somebody before it waits for room
            continue;
        }
        if (!has_turn(submission, alone)) {
            put_last(submission);
            continue;
        }
        Served served = Served::rotate;
        while (served == Served::rotate && submission.allowance > 0) {
            const std::uint64_t before = posted_bytes_;
            served = post_run(submission, posted);
            submission.allowance -= static_cast<std::int64_t>(posted_bytes_ - before);
        }
        switch (served) {
            case Served::full:
                full = true;
                [[fallthrough]];
            case Served::waits:
                wants_room_ = true;
                [[fallthrough]];
            case Served::rests:
                kept.push_back(submission);
                break;
            case Served::rotate:
                submission.in_turn = false;
                put_last(submission);
                break;
            case Served::through:
                --waiting_;
                WaitingBehind::let_next_in(submission, pending_);
                posted = true;
                submission.lane->work->part_done(Status::ok);
                break;
        }
    }
    wants_room_ |= !pending_.empty();
    asks_again_ |= blocked_.full();
    if (all) waiting_behind_.looked(pending_.empty() && !blocked_.is_sweeping(), blocked_.full());
    sweep_.end_pass(pending_, kept, blocked_);
    return posted;
}

/// Another one to the same peer has its place.
void FabricRail::put_last(Submission& submission) noexcept {
    Submission* const next = WaitingBehind::successor_of(submission);
    if (next) next->behind.push_back(submission);
    pending_.push_back(next ? *next : submission);
}

/// Deficit round robin: who has posted a chunk of many turns' worth lets the others have theirs first. Who is
/// stopped in its turn for want of room keeps it.
bool FabricRail::has_turn(Submission& submission, bool alone) noexcept {
    if (alone) {
        submission.allowance = turn_bytes;
    } else if (!submission.in_turn) {
        submission.allowance = std::min(submission.allowance + turn_bytes, turn_bytes);
    }
    submission.in_turn = submission.allowance > 0;
    return submission.in_turn;
}

FabricRail::Served FabricRail::post_run(Submission& submission, bool& posted) noexcept {
    Lane& lane = *submission.lane;
    Work& work = *lane.work;
    if (work.status() != Status::ok) {
        fail_rest(submission, work.status());
        return Served::through;
    }
    const Route& route = *submission.route;
    if (route.path && go_elsewhere(submission, submission.run)) {
        if (submission.run.empty()) return Served::through;
        submission.run = {};  // what is left of the lane follows them
        return Served::rotate;
    }
    if (given_up_.contains(route.destination)) {
        fail_rest(submission, Status::remote_disconnect);
        return Served::through;
    }
    if (!sending_ || (route.gated && !route.path->admits(sender_generation()))) {
        return refused(submission, sending_ ? "has not answered our introduction"
                                            : "could not be reached without an endpoint");
    }
    if (room() == 0) return Served::full;
    std::uint32_t room = room_for(route.path);
    if (submission.run.empty()) {
        if (room == 0 || !may_take(lane, route.path)) return has_enough(submission);
        const std::uint32_t most = submission.most_outstanding();
        if (most == 0) return Served::through;  // others are through with the rest before it would be
        if (submission.outstanding >= most) {
            WaitingBehind::let_all_in(submission, pending_);
            return Served::waits;
        }
        submission.run = lane.take_run(std::min({lane.run_length, room, most - submission.outstanding}));
        if (submission.run.empty()) return Served::through;
    }
    if (fabric_->domain.caps().sends_into_sockets && submission.stalled.rests()) {
        blocked_.insert(route.destination);
        asks_again_ = true;
        return Served::rests;
    }
    while (!submission.run.empty()) {
        const std::uint32_t count = std::min(submission.run.size(), room);
        if (count == 0) return this->room() == 0 ? Served::full : has_enough(submission);
        const std::uint32_t before = submission.run.begin;
        const auto result = post_chunks(submission, submission.run, count);
        if (submission.run.begin != before) {
            submission.stalled.reset();
            posted = true;
        }
        if (result == fabric::PostResult::again) return refused(submission, "took nothing");
        if (result == fabric::PostResult::failed) {
            const std::uint32_t first = submission.run.begin++;
            chunks_failed(submission, {first, first + 1}, count_failed_post());
            posted = true;
        }
        if (!submission.run.empty()) room = room_for(route.path);
    }
    return Served::rotate;
}

bool FabricRail::may_take_more(const Lane& lane, std::uint32_t chunks) const noexcept {
    const std::uint64_t all = outstanding_bytes();
    // As if all of its chunks were as long as the next one. Bytes are not counted by path, which would cost
    // as much again in each completion.
    const std::vector<Chunk>& pieces = lane.work->chunks;
    const std::uint32_t next = lane.next();
    const std::uint64_t length = next < pieces.size() ? pieces[next].length : 0;
    const std::uint64_t bytes = std::min(chunks * length, all);
    if (lane.striped && (chunks >= striped_operations || bytes >= striped_bytes)) return false;
    if (bytes < least_bytes || outstanding() < least_operations) return true;
    return all < most_bytes_of_all && bytes < most_bytes_of_all - all;
}

/// The rest is the others', until something of it has ended.
FabricRail::Served FabricRail::has_enough(Submission& submission) noexcept {
    if (!submission.route->path) return Served::full;
    blocked_.insert(submission.route->destination, &submission);
    return Served::waits;
}

/// The peer does not take it now: it stays, until that has gone on for too long.
FabricRail::Served FabricRail::refused(Submission& submission, const char* what) noexcept {
    Path* const path = submission.route->path;
    const bool failed = path && path->failed();
    const std::uint64_t patience =
        failed ? std::min(failed_patience_ns, config_.give_up_after_ns) : config_.give_up_after_ns;
    if (!submission.stalled.refusal(patience, failed)) {
        asks_again_ = true;
        blocked_.insert(submission.route->destination);
        return Served::waits;
    }
    if (path) note_failure(*path);
    RAILYARD_LOG(warn, name().c_str(), "a peer is given up: it %s for %llu ms", what,
                 static_cast<unsigned long long>(patience / 1'000'000));
    if (!given_up_.full()) {
        given_up_.insert(submission.route->destination);
        return Served::rotate;  // another way, or to its end
    }
    fail_rest(submission, Status::remote_disconnect);
    return Served::through;
}

fabric::PostResult FabricRail::post_chunks(Submission& submission, Run& run, std::uint32_t count) noexcept {
    if (pieces_ > 1) return post_groups(submission, run, count);
    const Work& work = *submission.lane->work;
    const Route& route = *submission.route;
    using Direction = fabric::Endpoint::Direction;
    fabric::RmaRow row(*sending_, route.destination,
                       work.kind == Work::Kind::read ? Direction::read : Direction::write);
    if (work.immediate) [[unlikely]]
        row.bring_immediates(work.immediate_of(run.begin));
    // The provider may change none of these, but no compiler knows that.
    const RemoteKey* const keys = route.keys.data();
    void* const* const descriptors = route.descriptors.data();
    const Chunk* const begin = work.chunks.data() + run.begin;
    const Chunk* const end = begin + count;
    const Chunk* chunk = begin;
    Operation* operation = free_operations_;
    std::uint64_t bytes = 0;
    fabric::PostResult result = row.ready();
    while (chunk != end && result == fabric::PostResult::ok) {
        const RemoteKey& key = keys[chunk->remote_region];
        const fabric::RmaPiece piece{chunk->local, chunk->length, descriptors[chunk->local_region],
                                     chunk->remote - key.address_base, key.key};
        result = row.post(*operation, piece, chunk + 1 != end);
        if (result != fabric::PostResult::ok) break;
        operation->submission = &submission;
        operation->chunk = chunk;
        bytes += chunk->length;
        operation = operation->next;
        ++chunk;
    }
    if (result == fabric::PostResult::again) count_refused();
    const auto posted = static_cast<std::uint32_t>(chunk - begin);
    free_operations_ = operation;
    run.begin += posted;
    submission.outstanding += posted;
    posted_ += posted;
    posted_bytes_ += bytes;
    if (route.path) route.path->count_posted(posted);
    return result;
}

}  // namespace railyard
