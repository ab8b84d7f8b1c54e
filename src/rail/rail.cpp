#include "rail/rail.h"

#include <new>

namespace railyard {
namespace {

/// Rails that one chunk is taken to, so that paths which come and go do not keep it for ever.
constexpr std::uint32_t most_attempts = 64;

/// Of a staged lane the carriers behind the staging memory see to failed paths.
bool leads_on(const Route& route) noexcept {
    return route.path ? !route.path->failed() : !route.carriers.empty();
}

}  // namespace

// The hand-over: a pusher pushes and then tries the role; a holder releases the role and then looks at the
// lists. All four steps are sequentially consistent, so either the pusher gets the role or the holder sees
// what was pushed.
bool Rail::hand_over(bool drain_first) noexcept {
    bool worked = false;
    do {
        if (!role_.try_acquire()) return worked;
        worked = serve(drain_first) || worked;
        role_.release();
    } while (!inbox_.empty() || !outbox_.empty());
    return worked;
}

std::uint32_t Rail::take_submissions(PendingList<Submission>& pending) noexcept {
    return pending.append(inbox_.take_all());
}

void Rail::fail_rest(Submission& submission, Status status) noexcept {
    // The submission's own part is still armed, so the work outlives these calls.
    Work& work = *submission.lane->work;
    while (true) {
        if (!submission.run.empty()) work.part_done(status, submission.run.size());
        submission.run = submission.lane->take_run(1024);
        if (submission.run.empty()) return;
    }
}

const Route* Rail::way_on(const Submission& submission, const Rail* unable) noexcept {
    if (submission.attempts >= most_attempts) return nullptr;
    const Route* best = nullptr;
    for (const Route& route : submission.alternatives) {
        if (!leads_on(route) || route.rail == unable) continue;
        if (!best || route.rail->ends_before(*best->rail, 1)) best = &route;
    }
    return best;
}

bool Rail::hand_on(const Submission& submission, Run chunks, const Rail* unable) noexcept {
    const Route* const best = way_on(submission, unable);
    if (!best) return false;
    std::unique_ptr<Rerun> rerun(new (std::nothrow) Rerun(submission, chunks, *best));
    if (!rerun) return false;
    Work& work = *submission.lane->work;
    Submission& again = rerun->submission;
    work.add_part();
    work.keep(std::move(rerun));
    best->rail->submit(again);
    return true;
}

void Rail::submit(Submission& submission) noexcept {
    if (role_.try_acquire()) {
        // Where nobody is at work and nothing is before it, most need no list and no round.
        if (!inbox_.empty() || !outbox_.empty() || !post_at_once(submission)) {
            inbox_.push(submission);
            serve(false);
        }
        role_.release_or_lease();
        if (inbox_.empty() && outbox_.empty()) return;
    } else {
        inbox_.push(submission);
        count_contention();
    }
    hand_over(false);
}

void Rail::send(OutMessage& message) noexcept {
    outbox_.push(message);
    hand_over(false);
}

void Rail::serve_pushed() noexcept {
    if (!inbox_.empty() || !outbox_.empty()) hand_over(true);
}

Rail::Progress Rail::progress(Looker looker) noexcept {
    if (!role_.try_acquire()) {
        if (looker == Looker::caller) count_contention();
        return Progress::busy;
    }
    // A thread of ours is there for everybody: it does not stand in for who keeps the rail.
    if (looker == Looker::caller)
        looks_.store(looks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    const bool worked = serve(true);
    if (looker == Looker::caller) {
        role_.release_or_lease();
    } else {
        role_.release();
    }
    serve_pushed();
    return worked ? Progress::worked : Progress::idle;
}

void Rail::deregister_memory(RegisteredMemory& memory) noexcept {
    in_turn([&] { memory = {}; });
}

PeerAddress Rail::insert_peer(std::string_view address) {
    return in_turn([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) { return do_insert_peer(address); });
}

void Rail::remove_peer(PeerAddress peer) noexcept {
    in_turn([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) { do_remove_peer(peer); });
}

PeerAddress Rail::admit_sender(std::string_view address) {
    return in_turn([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) { return do_admit_sender(address); });
}

void Rail::dismiss_sender(PeerAddress sender) noexcept {
    in_turn([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) { do_dismiss_sender(sender); });
}

void Rail::abandon_peer(PeerAddress peer) noexcept {
    in_turn([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) { do_abandon_peer(peer); });
}

void Rail::look_for_unanswered(std::uint8_t often) noexcept {
    in_turn([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) { do_look_for_unanswered(often); });
}

RailCounters Rail::counters() noexcept {
    RailCounters counters = in_turn([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) { return do_count(); });
    counters.contended = contended_.load(std::memory_order_relaxed);
    counters.leases_ended = role_.leases_ended();
    return counters;
}

void Rail::count_contention() noexcept {
    contended_.fetch_add(1, std::memory_order_relaxed);
}

bool Rail::prepare_wait() noexcept {
    if (!role_.try_acquire()) return false;
    const bool may = may_wait();
    role_.release();
    if (inbox_.empty() && outbox_.empty()) return may;
    hand_over(true);
    return false;
}

}  // namespace railyard
