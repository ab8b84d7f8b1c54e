// What becomes of operations that failed or were interrupted, and how a sender is replaced.
#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "rail/deferred_close.h"
#include "rail/fabric_rail.h"

namespace railyard {
namespace {

constexpr std::uint64_t first_reopen_pause_ns = 100'000'000;
constexpr std::uint64_t longest_reopen_pause_ns = 5'000'000'000;
constexpr std::uint8_t doubted_looks = 2;  // at a message that has not ended
/// Of a progress thread, while chunks wait for what nobody tells of.
constexpr std::uint64_t longest_rest_ns = 1'000'000;

}  // namespace

void FabricRail::count_refused() noexcept {
    ++counters_.refusals;
}

/// By who gives its chunk up: post_at_once() leaves it to another try.
Status FabricRail::count_failed_post() noexcept {
    const int error = sending_->last_error();
    RAILYARD_LOG(debug, name().c_str(), "post failed: %s", fi_strerror(error));
    const Status status = fabric::classify_failure(fabric::Codes::unread, error, 0);
    counters_.count_error(status);
    return status;
}

void FabricRail::operation_failed(Operation& operation, const fabric::Completion& completion) noexcept {
    Submission& submission = *operation.submission;
    const Run chunks = chunks_of(operation);
    take_from_posted(operation);
    if (!closing_) counters_.count_error(completion.status);
    if (completion.unknown_at_target && submission.route->gated) {
        // The peer was disconnected from us, or knows too many: it will be told of us again.
        submission.route->path->forget();
        if (config_.changes) config_.changes->fetch_add(1, std::memory_order_release);
        return give_back(submission, chunks);
    }
    if (completion.key_refused && submission.lane->work->renews && !closing_)
        return keys_refused(operation, chunks);
    const bool late = fabric_->domain.caps().late_after_error &&
                      !fabric::refused_here(fabric::Codes::efa, completion.provider_error) && !closing_;
    // Before the transfer hears of it, nothing may be left that could still write.
    renewal_needed_ = renewal_needed_ || (late && failing_ == present_sender);
    behind_ = late ? failing_ : 0;
    if (!late || (completion.status == Status::remote_disconnect && submission.route->path)) {
        chunks_failed(submission, chunks, completion.status);
    } else {
        submission.lane->work->stop(completion.status);
        give_back(submission, chunks);
    }
    behind_ = 0;
}

Run FabricRail::chunks_of(const Operation& operation) noexcept {
    const std::uint32_t begin = operation.submission->lane->work->index_of(*operation.chunk);
    return {begin, begin + operation.chunks};
}

/// Of chunks that nothing is under way of any more, or will be when it has its turn.
void FabricRail::chunks_failed(Submission& submission, Run chunks, Status status) noexcept {
    Path* const path = submission.route->path;
    if (status != Status::remote_disconnect || !path) {
        submission.lane->work->part_done(status, chunks.size());
        return;
    }
    if (!closing_) {
        note_failure(*path);
        if (sending_) sending_->broke(submission.route->destination);
    }
    give_back(submission, chunks);
}

void FabricRail::give_back(Submission& submission, Run chunks) noexcept {
    for (; !chunks.empty(); ++chunks.begin) {
        try {
            const std::uint64_t now = now_ns();
            if (returned_.empty()) looked_at_returned_ = now;
            returned_.push_back({.submission = &submission,
                                 .chunk = chunks.begin,
                                 .since = now,
                                 .waits_from = now,
                                 .behind = behind_});
        } catch (const std::bad_alloc&) {
            return submission.lane->work->part_done(Status::backend, chunks.size());
        }
    }
}

void FabricRail::note_failure(Path& path) noexcept {
    if (!path.fail()) return;
    RAILYARD_LOG(info, name().c_str(), "nobody answers on one of its paths: it is left alone for now");
    if (config_.changes) config_.changes->fetch_add(1, std::memory_order_release);
}

bool FabricRail::settle_failures() noexcept {
    if (unnamed_) [[unlikely]]
        name_sender();
    if (!fabric_->aside.empty() || stopped_until_ != 0) settle_aside();
    const bool ends = !fabric_->queue.broken();  // else whatever is under way is never heard of again
    const bool asked = renewal_requested_.load(std::memory_order_relaxed) || renewal_needed_;
    const bool wanted = ends ? asked || !sending_ : asked || sending_;
    if (!wanted && returned_.empty()) return false;
    if (wanted && now_ns() >= reopen_at_) renew();
    return place_returned();
}

bool FabricRail::request_renewal() noexcept {
    renewal_requested_.store(true, std::memory_order_release);
    return fabric_->domain.caps().separate_sender;
}

void FabricRail::renew() noexcept {
    const bool broken = fabric_->queue.broken();
    if (!fabric_->domain.caps().separate_sender || (!sending_ && broken)) {
        renewal_needed_ = false;
        renewal_requested_.store(false, std::memory_order_relaxed);
        hand_over_returned(0);
        return sending_ || broken ? stop_sending() : reopen();
    }
    meter_.pause();
    drain_all();  // see ProviderCaps::reads_before_close
    if (may_set_aside()) return set_aside();
    std::unique_ptr<Operations> operations;
    std::shared_ptr<void> sends;
    std::unique_ptr<fabric::UnsentBytesDropped> dropped;
    try {
        operations = std::make_unique<Operations>(depth_);
        dropped = drop_unsent_bytes();
        sends = control_->begin_renewal();  // last: it has no way back
    } catch (const std::exception& error) {
        return put_renewal_off(error);  // nothing has been done, and it is still wanted
    }
    renewal_needed_ = false;
    renewal_requested_.store(false, std::memory_order_relaxed);
    closing_ = true;
    sending_ = nullptr;
    fabric_->sender.reset();
    dropped.reset();
    // What had ended before counts; what the closing flushes has only been interrupted.
    if (!fabric_->queue.close_sent()) drain_all();
    flushed_by_us_ = fabric_->queue.flushed();
    closing_ = false;
    end_late(*fabric_->operations.back(), true);
    take_back();
    hand_over_returned(0);
    try {
        if (fabric_->old_sends.size() == kept_generations)
            fabric_->old_sends.erase(fabric_->old_sends.begin());
        fabric_->old_sends.push_back(std::move(sends));
        open_sender(std::move(operations));
    } catch (const std::exception& error) {
        put_renewal_off(error);
    }
    publish_sender();
}

void FabricRail::put_renewal_off(const std::exception& error) noexcept {
    RAILYARD_LOG(error, name().c_str(), "no new endpoint to send from, tried again later: %s", error.what());
    reopen_without_device_ = dynamic_cast<const fabric::DeviceGone*>(&error) != nullptr;
    reopen_pause_ns_ = std::clamp(2 * reopen_pause_ns_, first_reopen_pause_ns, longest_reopen_pause_ns);
    reopen_at_ = now_ns() + reopen_pause_ns_;
}

/// Nothing of the sender that is closed then is sent afterwards, not by the kernel either. Throws where there
/// is no memory for it.
std::unique_ptr<fabric::UnsentBytesDropped> FabricRail::drop_unsent_bytes() {
    std::unique_ptr<fabric::UnsentBytesDropped> dropped;
    try {
        if (fabric_->domain.caps().sends_into_sockets)
            dropped = std::make_unique<fabric::UnsentBytesDropped>(fabric_->addresses.addresses());
    } catch (const std::bad_alloc&) {
        throw;
    } catch (const std::exception& error) {
        RAILYARD_LOG(warn, name().c_str(), "connections are closed with what is unsent: %s", error.what());
    }
    return dropped;
}

/// What has ended and has not been read yet does not count.
void FabricRail::do_look_for_unanswered(std::uint8_t often) noexcept {
    asks_again_ = true;  // what ends here makes room, and no completion is left to wake anybody up for it
    control_->ask_again();
    if (!fabric_->aside.empty()) {  // while nothing comes, nobody else looks
        settle_aside();
        publish_load();
    }
    const bool sockets = fabric_->domain.caps().sends_into_sockets;
    if (outstanding() == 0 && control_->outstanding() == 0) return;
    if (!fabric_->domain.caps().loses_answers && !sockets) return;
    drain_all();
    if (sockets) return control_->doubt_unanswered(std::min(often, doubted_looks));  // they may only not look
    std::size_t unanswered = control_->unanswered(often);
    for (Operation& operation : *fabric_->operations.back())
        unanswered += operation.handler != on_given_up_complete && operation.found_again(often) ? 1 : 0;
    publish_load();
    if (unanswered == 0 || renewal_needed_) return;
    RAILYARD_LOG(warn, name().c_str(), "%zu operations are not answered: %s from a new endpoint", unanswered,
                 fabric_->domain.caps().waits_to_close ? "others go on" : "sent again,");
    renewal_needed_ = true;
}

void FabricRail::drain_all() noexcept {
    fabric_->queue.drain_whole(most_unread());
}

/// Whatever the provider may still say of it.
void FabricRail::take_back() noexcept {
    for (Operation& operation : *fabric_->operations.back()) {
        if (!operation.posted || disown(operation)) continue;
        operation.handler = ignore_completion;
        free_operation(operation, operation.chunks);
        take_from_posted(operation);
        give_back(*operation.submission, chunks_of(operation));
    }
}

void FabricRail::open_sender(std::unique_ptr<Operations> operations) {
    use(std::move(operations));
    control_->end_renewal(nullptr);
    if (fabric_->callers && !fabric_->queue.broken()) fabric_->addresses.renew();
    start_sender();
}

void FabricRail::start_sender() {
    if (fabric_->queue.broken()) {
        RAILYARD_LOG(error, name().c_str(), "is used no more: %zu operations go over other rails",
                     returned_.size());
        return;
    }
    fabric_->sender = fabric_->new_sender();
    if (fabric_->domain.caps().shares_endpoints) DeferredClose::add_name(fabric_->sender->name());
    sending_ = fabric_->sender.get();
    reopen_pause_ns_ = 0;
    expect_connections();
    if (indirect_) sending_->confirm_delivery();
    control_->send_from(sending_);
    RAILYARD_LOG(
        info, name().c_str(),
        "sends from a new endpoint: %zu operations had not ended, and are carried out again unless their "
        "transfers have been given up",
        returned_.size());
}

/// Where its path has failed or nothing can be sent from here. The path counts as failed then: others would
/// only hand their chunks back.
bool FabricRail::go_elsewhere(const Submission& submission, Run chunks) noexcept {
    Path& path = *submission.route->path;
    if (sending_ && !path.failed()) return false;
    if (!hand_on(submission, chunks, sending_ ? nullptr : this)) return false;
    if (!sending_) note_failure(path);
    ++counters_.failovers;
    path.count_failover();
    return true;
}

bool FabricRail::waits_too_long(const Returned& returned) const noexcept {
    return looked_at_returned_ >= returned.waits_from + config_.give_up_after_ns;
}

/// Of a time in which nobody looked (as StallClock) a quarter of what they have counts at most.
void FabricRail::excuse_returned() noexcept {
    const std::uint64_t now = now_ns(), last = std::exchange(looked_at_returned_, now);
    const std::uint64_t counted = last + config_.give_up_after_ns / 4;
    if (now <= counted) return;
    for (Returned& returned : returned_)
        returned.waits_from += now - counted;
}

/// Of a work that is to be asked.
Work::Verdict FabricRail::verdict_on(const Returned& returned) const noexcept {
    const Submission& submission = *returned.submission;
    if (submission.route->path->failed() && !way_on(submission, nullptr)) return Work::Verdict::lost;
    const Work::Verdict verdict = submission.lane->work->may_repeat(returned.chunk);
    const bool late = waits_too_long(returned);
    return verdict == Work::Verdict::unknown && late ? Work::Verdict::lost : verdict;
}

/// Chunks whose path has failed go elsewhere, the others out again. That some still wait is no work, or a
/// progress thread would never rest; but now and then it is, so that its pauses stay short.
bool FabricRail::place_returned() noexcept {
    bool changed = false, wait = false;
    std::size_t kept = 0;
    PeerSet refusing;  // each is asked in vain once
    const std::uint64_t last = looked_at_returned_;
    excuse_returned();
    for (std::size_t i = 0; i < returned_.size(); ++i) {
        Returned returned = returned_[i];
        Work& work = *returned.submission->lane->work;
        if (returned.behind != 0) {
            returned_[kept++] = returned;
            continue;
        }
        wait = true;
        if (work.status() != Status::ok) {
            if (!std::exchange(returned.key_refused, false) || !fabric_->domain.caps().late_after_error) {
                work.part_done(work.status());
                continue;
            }
            renewal_needed_ = changed = true;
            returned.behind = present_sender;
            returned_[kept++] = returned;
            continue;
        }
        if (returned.key_refused && awaits_key(returned)) {
            returned_[kept++] = returned;
            continue;
        }
        if (!returned.permitted && work.asks_before_repeat()) {
            const Work::Verdict verdict = verdict_on(returned);
            if (verdict == Work::Verdict::unknown) {
                returned_[kept++] = returned;
                continue;
            }
            if (verdict != Work::Verdict::repeat) {
                work.part_done(verdict == Work::Verdict::done ? Status::ok : Status::remote_disconnect);
                continue;
            }
            returned.permitted = true;
        }
        const bool failed = returned.submission->route->path->failed();
        if (go_elsewhere(*returned.submission, {returned.chunk, returned.chunk + 1})) continue;
        if (failed) {
            work.part_done(Status::remote_disconnect);
        } else if (refusing.contains(returned.submission->route->destination) ||
                   !post_again(returned, refusing)) {
            returned_[kept++] = returned;
        }
    }
    changed = changed || kept != returned_.size();
    returned_.resize(kept);
    return changed || (wait && looked_at_returned_ / longest_rest_ns != last / longest_rest_ns);
}

/// False: it has to wait.
bool FabricRail::post_again(const Returned& returned, PeerSet& refusing) noexcept {
    Submission& submission = *returned.submission;
    Work& work = *submission.lane->work;
    const Route& route = *submission.route;
    if (waits_too_long(returned)) {
        work.part_done(Status::remote_disconnect);
        return true;
    }
    if (!sending_ || room() == 0 || (route.gated && !route.path->admits(sender_generation()))) return false;
    Run chunk{returned.chunk, returned.chunk + 1};
    switch (post_chunks(submission, chunk, 1)) {
        case fabric::PostResult::ok:
            ++counters_.repeats;
            route.path->count_repeat();
            return true;
        case fabric::PostResult::again:
            refusing.insert(route.destination);
            return false;
        case fabric::PostResult::failed:
            break;
    }
    const Status status = count_failed_post();
    if (status == Status::remote_disconnect) note_failure(*route.path);
    work.part_done(status);
    return true;
}

}  // namespace railyard
