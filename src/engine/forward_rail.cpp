#include "engine/forward_rail.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/clock.h"
#include "common/log.h"

namespace railyard {
namespace {

/// Pieces of at most so many bytes in all go into one request, so that the peer's work is spread over its
/// buffers and ours ends bit by bit.
constexpr std::uint64_t bytes_per_request = std::uint64_t{4} << 20;

template <class Pointer, class Make>
std::uint16_t index_of(std::map<Pointer, std::uint16_t>& known, Pointer pointer, Make make) {
    const auto [entry, added] = known.emplace(pointer, static_cast<std::uint16_t>(known.size()));
    if (added) make();
    return entry->second;
}

/// Of its own work, which may be one slot's of the transfer, or of the transfer.
Status status_of(const Submission& submission) noexcept {
    const Status own = submission.lane->work->status();
    return own != Status::ok ? own : submission.route->forwarding->transfer->status();
}

/// There is nobody to wait for. One that was only disconnected still answers.
bool is_dead(const Route& route) noexcept {
    return route.path->failed() && route.forwarding->peer->state() == PeerState::gone;
}

}  // namespace

void ForwardRail::answered(std::uint64_t nonce, const Answer& answer) {
    const MutexLock lock(answers_mutex_);
    if (const auto found = std::find(expected_.begin(), expected_.end(), Name{nonce, answer.id});
        found != expected_.end()) {
        answers_.emplace_back(nonce, answer);
        expected_.erase(found);
        return;
    }
    const auto of_it = [&](const auto& other) { return other.first == nonce; };
    if (std::none_of(expected_.begin(), expected_.end(), of_it)) return;
    const auto known = std::find_if(late_.begin(), late_.end(), of_it);
    if (known == late_.end()) {
        late_.emplace_back(nonce, answer);
    } else if (answer.id < known->second.id) {
        known->second = answer;
    }
}

void ForwardRail::expect(const Name& request) {
    const MutexLock lock(answers_mutex_);
    expected_.push_back(request);
}

void ForwardRail::expect_no_more(const Name& request) noexcept {
    const MutexLock lock(answers_mutex_);
    std::erase(expected_, request);
}

bool ForwardRail::serve(bool drain_first) noexcept {
    waiting_ += take_submissions(pending_);
    bool worked = take_answers();
    worked = end_stopped() || worked;
    worked = give_up_late_ones(drain_first) || worked;
    worked = ask_pending() || worked;
    load_.store(waiting_ + static_cast<std::uint32_t>(outstanding_.size()), std::memory_order_relaxed);
    return worked;
}

bool ForwardRail::take_answers() noexcept {
    std::vector<std::pair<std::uint64_t, Answer>> answers, late;
    {
        const MutexLock lock(answers_mutex_);
        answers.swap(answers_);
        late.swap(late_);
    }
    for (const auto& [nonce, answer] : answers)
        end(nonce, answer);
    for (const auto& [nonce, answer] : late)
        end(nonce, answer);
    return !answers.empty() || !late.empty();
}

void ForwardRail::end(std::uint64_t nonce, const Answer& answer) noexcept {
    const std::uint64_t now = now_ns();
    const auto found = std::find_if(
        outstanding_.begin(), outstanding_.end(),
        [&](const Outstanding& request) { return request.id == answer.id && request.nonce == nonce; });
    for (Outstanding& request : outstanding_) {
        if (request.nonce != nonce) continue;
        const bool in_turn = answer.id < request.id ||
                             (found != outstanding_.end() && found->sent_at - request.sent_at < patience_ns_);
        if (!in_turn) continue;
        request.heard_at = now;  // it lives, and gets to this one, too
        request.excused = false;
    }
    if (found == outstanding_.end()) return hear_late(nonce, answer.id);
    const Outstanding request = *found;
    outstanding_.erase(found);
    finish(request, answer.status);
}

void ForwardRail::doubt(Outstanding& request, std::uint64_t waited_ns) noexcept {
    if (waited_ns < request.doubted_after) return;
    request.doubted_after *= 2;
    request.submission->route->forwarding->peer->doubt_introduction();
    introducer_.introduce_soon();
}

/// Nobody has looked for long: the answer may be here, unread. As Peer::watched has it, once until something
/// is heard it is as if that had been three quarters of the time ago.
bool ForwardRail::excuse(Outstanding& request, std::uint64_t now) noexcept {
    if (request.excused || now - looked_at_ <= patience_ns_ / 4) return false;
    request.heard_at = now - patience_ns_ / 4 * 3;
    return request.excused = true;
}

/// `looks`: that who calls in reads what has come, too.
bool ForwardRail::give_up_late_ones(bool looks) noexcept {
    if (outstanding_.empty()) return false;
    bool any = false;
    const std::uint64_t now = now_ns();
    for (auto entry = outstanding_.begin(); entry != outstanding_.end();) {
        const std::uint64_t waited_ns = now - std::max(entry->sent_at, entry->heard_at);
        if (waited_ns < patience_ns_ || excuse(*entry, now)) {
            doubt(*entry, waited_ns);
            ++entry;
            continue;
        }
        const Outstanding request = *entry;
        entry = outstanding_.erase(entry);
        RAILYARD_LOG(warn, request.submission->route->forwarding->peer->agent().c_str(),
                     "a transfer was given up: the peer, which has to move its GPU memory itself, has not "
                     "answered for %llu ms",
                     static_cast<unsigned long long>(patience_ns_ / 1'000'000));
        give_up(request, Status::remote_disconnect);
        any = true;
    }
    if (looks) looked_at_ = now;
    return any;
}

/// Of works that were stopped: their ends, and nothing of theirs, may wait for a peer.
bool ForwardRail::end_stopped() noexcept {
    if (std::none_of(outstanding_.begin(), outstanding_.end(),
                     [](const Outstanding& request) { return status_of(*request.submission) != Status::ok; }))
        return false;
    const std::uint64_t now = now_ns();
    withdraw(now);
    bool any = false, unheard = false;
    for (auto entry = outstanding_.begin(); entry != outstanding_.end();) {
        const Outstanding request = *entry;
        const Status status = status_of(*request.submission);
        const Route& route = *request.submission->route;
        const bool in_vain = is_dead(route);
        const bool waits = request.stopped_at == 0 || now - request.stopped_at < word_limit_ns;
        if (status == Status::ok || (!in_vain && waits)) {
            ++entry;
            continue;
        }
        entry = outstanding_.erase(entry);
        any = true;
        if (!in_vain && !std::exchange(unheard, true)) {
            RAILYARD_LOG(warn, route.forwarding->peer->agent().c_str(),
                         "has not said within %llu ms that it stopped: it may go on with a transfer that was "
                         "reported ended",
                         static_cast<unsigned long long>(word_limit_ns / 1'000'000));
        }
        give_up(request, status);
    }
    return any;
}

/// One message to each peer. What cannot be sent now is tried again in the next pass.
void ForwardRail::withdraw(std::uint64_t now) noexcept {
    for (Outstanding& first : outstanding_) {
        const auto is_to_be_told = [&](const Outstanding& request) {
            return request.nonce == first.nonce && !request.withdrawn &&
                   status_of(*request.submission) != Status::ok;
        };
        if (!is_to_be_told(first)) continue;
        bool is_news = false;
        for (Outstanding& request : outstanding_) {
            if (!is_to_be_told(request) || request.stopped_at != 0) continue;
            request.stopped_at = now;
            is_news = true;
        }
        try {
            Request message;
            message.kind = RequestKind::withdraw;
            for (const Outstanding& request : outstanding_) {
                if (is_to_be_told(request)) message.tokens.push_back(request.id);
            }
            sender_.send_request(first.submission->route->forwarding->peer, message);
        } catch (const std::exception& error) {
            if (is_news)
                RAILYARD_LOG(error, name().c_str(), "requests cannot be withdrawn yet: %s", error.what());
            return;
        }
        // What was stopped only just now may be told twice.
        for (Outstanding& request : outstanding_)
            request.withdrawn =
                request.withdrawn || (request.nonce == first.nonce && request.stopped_at != 0);
    }
}

/// The peer may still do what it was asked. Before its parts end: whoever owns its memory looks then whether
/// that is free.
void ForwardRail::give_up(const Outstanding& request, Status status) noexcept {
    for (const auto& local : request.submission->route->forwarding->locals)
        local->known_no_more.store(true, std::memory_order_relaxed);
    bool listens = false;
    if (std::atomic<std::uint32_t>* const late = request.submission->late) {
        late->fetch_add(1, std::memory_order_relaxed);
        const Forwarding& forwarding = *request.submission->route->forwarding;
        try {
            unheard_.push_back({request.id,
                                request.nonce,
                                late,
                                now_ns(),
                                {forwarding.lender, request.lent},
                                forwarding.peer->addresses()});
            count_unheard();
            listens = true;
        } catch (const std::bad_alloc&) {
            // It counts as unheard for ever.
        }
    }
    if (!listens) expect_no_more({request.nonce, request.id});
    finish(request, status);
}

void ForwardRail::hear_late(std::uint64_t nonce, std::uint64_t id) noexcept {
    std::erase_if(unheard_, [&](const Unheard& request) {
        if (request.id != id || request.nonce != nonce) return false;
        request.late->fetch_sub(1, std::memory_order_release);
        return true;
    });
    count_unheard();
}

std::vector<ForwardRail::Loan> ForwardRail::unheard_loans(std::uint64_t before_ns) {
    return in_turn([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        std::vector<Loan> loans;
        for (const Unheard& request : unheard_) {
            if (!request.loan.lent || request.since >= before_ns) continue;
            const auto same = [&](const Loan& other) { return other.lent == request.loan.lent; };
            if (std::none_of(loans.begin(), loans.end(), same)) loans.push_back(request.loan);
        }
        return loans;
    });
}

bool ForwardRail::awaits_answers(const Registration& lent) noexcept {
    return in_turn([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        return std::any_of(outstanding_.begin(), outstanding_.end(),
                           [&](const Outstanding& request) { return request.lent.get() == &lent; });
    });
}

std::vector<std::string> ForwardRail::unheard_addresses(const Registration& lent) {
    return in_turn([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        std::vector<std::string> addresses;
        for (const Unheard& request : unheard_) {
            if (request.loan.lent.get() == &lent)
                addresses.insert(addresses.end(), request.addresses.begin(), request.addresses.end());
        }
        return addresses;
    });
}

std::size_t ForwardRail::forget(const Registration& lent) noexcept {
    return in_turn([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        const std::size_t forgotten = std::erase_if(unheard_, [&](const Unheard& request) {
            if (request.loan.lent.get() != &lent) return false;
            expect_no_more({request.nonce, request.id});
            request.late->fetch_sub(1, std::memory_order_release);
            return true;
        });
        count_unheard();
        return forgotten;
    });
}

void ForwardRail::finish(const Outstanding& request, Status status) noexcept {
    Work& work = *request.submission->lane->work;
    for (std::uint32_t i = request.run.begin; i < request.run.end; ++i)
        work.part_done(status);
}

bool ForwardRail::ask_pending() noexcept {
    bool asked = false;
    PendingList<Submission> kept;
    while (!pending_.empty() && outstanding_.size() < most_requests) {
        Submission& submission = *pending_.pop_front();
        switch (ask(submission)) {
            case Asked::through:
                --waiting_;
                asked = true;
                submission.lane->work->part_done(Status::ok);
                break;
            case Asked::waits:
                kept.push_back(submission);
                break;
            case Asked::again:
                asked = true;
                pending_.push_back(submission);
                break;
        }
    }
    pending_.prepend(kept);
    return asked;
}

ForwardRail::Asked ForwardRail::ask(Submission& submission) noexcept {
    Work& work = *submission.lane->work;
    const Route& route = *submission.route;
    if (const Status status = status_of(submission); status != Status::ok) {
        fail_rest(submission, status);
        return Asked::through;
    }
    if (route.gated && !route.path->introduced()) {
        if (!submission.stalled.refusal(patience_ns_)) return Asked::waits;
        RAILYARD_LOG(warn, route.forwarding->peer->agent().c_str(),
                     "a transfer was given up: the peer has not answered our introduction");
        fail_rest(submission, Status::remote_disconnect);
        return Asked::through;
    }
    if (submission.run.empty()) submission.run = submission.lane->take_run(max_request_pieces);
    if (submission.run.empty()) return Asked::through;
    if (!may_ask(*route.forwarding->peer)) return Asked::waits;
    Run now{submission.run.begin, submission.run.begin};
    for (std::uint64_t bytes = 0; now.end < submission.run.end && bytes < bytes_per_request; ++now.end)
        bytes += work.chunks[now.end].length;
    submission.run.begin = now.end;
    const Forwarding& forwarding = *route.forwarding;
    const std::shared_ptr<Registration> lent = forwarding.lender ? forwarding.lender->lent() : nullptr;
    bool listed = false;
    try {
        Request request = make_request(submission, now, lent.get());
        request.id = next_id_++;
        outstanding_.push_back({request.id, forwarding.peer->nonce(), now_ns(), &submission, now});
        outstanding_.back().lent = lent;
        listed = true;
        expect({forwarding.peer->nonce(), request.id});
        sender_.send_request(forwarding.peer, request);
    } catch (const std::exception& error) {
        RAILYARD_LOG(error, name().c_str(), "a request could not be sent: %s", error.what());
        if (listed) {
            expect_no_more({outstanding_.back().nonce, outstanding_.back().id});
            outstanding_.pop_back();
        }
        finish({0, 0, 0, &submission, now}, Status::backend);
    }
    return Asked::again;
}

bool ForwardRail::may_ask(const Peer& peer) const noexcept {
    const auto to_it = [&](const Outstanding& request) { return request.nonce == peer.nonce(); };
    const auto has = std::count_if(outstanding_.begin(), outstanding_.end(), to_it);
    if (has != 0 && outstanding_.size() + kept_for_newcomers >= most_requests) return false;
    return has < most_requests_of_a_peer;
}

Request ForwardRail::make_request(const Submission& submission, Run run, const Registration* lent) {
    const Forwarding& forwarding = *submission.route->forwarding;
    const Work& work = *submission.lane->work;
    Request request;
    request.kind = forwarding.flush                ? RequestKind::flush
                   : work.kind == Work::Kind::read ? RequestKind::read
                                                   : RequestKind::write;
    if (forwarding.flush) {
        for (std::uint32_t i = run.begin; i < run.end; ++i)
            request.tokens.push_back(forwarding.remotes[work.chunks[i].remote_region]->token);
        return request;
    }
    std::map<std::uint32_t, std::uint16_t> tokens, memories;
    for (std::uint32_t i = run.begin; i < run.end; ++i) {
        const Chunk& chunk = work.chunks[i];
        RequestPiece piece{chunk.remote, chunk.local, chunk.length, 0, 0};
        piece.token = index_of(tokens, chunk.remote_region, [&] {
            request.tokens.push_back(forwarding.remotes[chunk.remote_region]->token);
        });
        piece.memory = index_of(memories, chunk.local_region, [&] {
            const Registration& local = lent ? *lent : *forwarding.locals[chunk.local_region];
            request.memories.push_back(local.key_table());
        });
        request.pieces.push_back(piece);
    }
    return request;
}

}  // namespace railyard
