#include <algorithm>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "common/occasional.h"
#include "engine/checked_pieces.h"
#include "engine/engine_impl.h"
#include "engine/route_choice.h"

namespace railyard {
namespace {

/// Every so many polls of one transfer, all rails are served and not only those that carry it.
constexpr std::uint32_t polls_per_full_pass = 8;

/// What a released transfer is granted to end by itself, and then when its operations are interrupted.
constexpr std::uint64_t cancel_patience_ns = 20'000'000;
constexpr std::uint64_t interrupt_limit_ns = 200'000'000;
/// Where the peer's NIC has to say something first.
constexpr std::uint64_t interrupt_limit_apart_ns = 1'000'000'000;

/// Of a transfer shorter than RateModel::large_bytes, how many rounds share one look at the exact clock: two
/// looks cost as much as the post of a small one, and a hundredth of what 64 KiB take.
constexpr std::uint32_t rounds_per_measurement = 8;

/// Memory that is deregistered during a post, and there once more: so often is that tried.
constexpr int most_losses = 16;

/// Of what nobody else tells of at the usual level: a peer that is gone, a limit that is over, and whoever
/// cancels do.
[[gnu::cold]] void tell_of_failure(const Transfer& transfer, Status status) noexcept {
    if (!transfer.peer || status == Status::canceled || status == Status::remote_disconnect) return;
    const std::uint64_t count = transfer.peer->traffic.failed.load(std::memory_order_relaxed);
    if (!worth_a_line(count)) return;
    const bool answered = transfer.eagerly && transfer.eager->answered;
    const char* cause =
        "is its memory still registered, and mapped, on both sides? Rails say what the provider says";
    if (status == Status::invalid_param) {
        cause = "memory of it is registered no more";
    } else if (answered && status == Status::not_allowed) {
        cause = "too many notifications wait for the peer's application to take them";
    } else if (answered && status == Status::backend) {
        cause = "asked again so late, the peer does not know what became of it, or keeps its data no more";
    }
    RAILYARD_LOG(warn, transfer.peer->agent().c_str(), "a %s has failed: %s (%llu so far): %s",
                 transfer.kind == Work::Kind::read ? "READ" : "WRITE", to_string(status),
                 static_cast<unsigned long long>(count), cause);
}

/// While rails have different weights: so many posts, and one that pays them no heed.
constexpr std::uint32_t posts_per_trial = 128;

}  // namespace

Transfer* Engine::Impl::prepare(Operation operation, std::span<const LocalDescriptor> local,
                                std::span<const RemoteDescriptor> remote, const std::string& agent,
                                std::optional<std::string_view> notification) {
    auto transfer = std::make_unique<Transfer>();
    // Before the first look: what is deregistered from here on is looked for by the next post.
    transfer->checked_epoch = registration_epoch_.load(std::memory_order_seq_cst);
    if (!is_self(agent)) transfer->aim_at(require_peer(agent), tells());
    transfer->kind = operation == Operation::read ? Work::Kind::read : Work::Kind::write;

    Pinned pinned;
    lay_out(*transfer, checked_pieces(*transfer, local, remote, agent, pinned), false);
    ready_notification(*transfer);
    let_keys_be_renewed(*transfer);
    transfer->may_be_eager = may_be_eager(*transfer);
    transfer->may_be_early = may_be_early(*transfer);
    if (notification) {
        if (notification->size() > max_notification) {
            throw Error(Status::invalid_param, "notification of " + std::to_string(notification->size()) +
                                                   " bytes; at most " + std::to_string(max_notification) +
                                                   " are carried");
        }
        transfer->has_notification = true;
        transfer->notification.message = *notification;
    }
    if (fits_message(*transfer)) make_eager(*transfer);
    if (transfer->peer) introduce(transfer->peer);
    return transfers_.add(std::move(transfer));
}

void Engine::Impl::ready_notification(Transfer& transfer) {
    transfer.own_agent = &config_.agent_name;
    transfer.own_nonce = nonce_;
    transfer.own_inbox = &inbox_;
    transfer.notification.owner = &transfer;
    transfer.notification.done = Transfer::on_notified;
    if (!transfer.peer) return;
    transfer.notification.retry = this;
    transfer.notification.peer = transfer.peer.get();
    transfer.peer->resolve(control_pair);
}

Status Engine::Impl::check_postable(Transfer& transfer) noexcept {
    if (!transfer.done()) return Status::repost_active;
    if (transfer.peer && transfer.peer->state() == PeerState::gone) {
        transfer.peer->want_back();
        if (!transfer.peer->gone()) progress();  // it may be back: somebody has to look
        return Status::remote_disconnect;
    }
    if (transfer.peer && transfer.peer->unacquainted()) introduce_again(transfer.peer);
    const std::uint64_t epoch = registration_epoch_.load(std::memory_order_seq_cst);
    if (epoch == transfer.checked_epoch) return Status::ok;
    if (transfer.revoked() && !use_other_registrations(transfer)) {
        RAILYARD_LOG(error, agent().c_str(), "post refused: memory of the transfer was deregistered");
        return Status::invalid_param;
    }
    transfer.checked_epoch = epoch;
    return Status::ok;
}

/// Of deregister_memory and this, the one that comes second sees what the other did before its own: there is
/// a barrier in between on either side, or both are read-modify-writes of one atomic.
std::uint64_t Engine::Impl::epoch_of_post() noexcept {
    if (!process_barriers_) return registration_epoch_.fetch_add(0, std::memory_order_acq_rel);
    light_barrier();
    return registration_epoch_.load(std::memory_order_acquire);
}

/// Since it was looked whether all of it is there, before the round.
bool Engine::Impl::has_lost_memory(const Transfer& transfer) noexcept {
    return epoch_of_post() != transfer.checked_epoch && transfer.revoked();
}

void Engine::Impl::arm_round(Transfer& transfer) noexcept {
    transfer.posted = true;
    transfer.ended_with.store(Status::in_progress, std::memory_order_relaxed);
    transfer.started.store(false, std::memory_order_relaxed);
    transfer.polls.store(0, std::memory_order_relaxed);
    transfer.eagerly = goes_eagerly(transfer);
    if (transfer.eagerly) {
        transfer.arm_instead();
    } else {
        const std::uint32_t count = count_submissions(transfer);
        // A transfer without data is one part that is over at once.
        // Whoever starts a held transfer has a part of its own, so that the round outlasts the hand-overs.
        const std::uint32_t starter = transfer.start_control ? 1 : 0;
        transfer.early = transfer.may_be_early && goes_early(transfer);
        const std::uint32_t announcement = transfer.early ? 1 : 0;
        transfer.arm(std::max(count, 1u) + starter + announcement,
                     transfer.has_tail() ? Transfer::finish_round : nullptr);
    }
}

Status Engine::Impl::post(Transfer& transfer, const std::string* notification, bool keeps_last) noexcept {
    const Status refused = check_postable(transfer);
    if (refused != Status::ok) {
        if (refused != Status::repost_active && transfer.peer && !transfer.of_peer)
            transfer.peer->traffic.count_error(refused);
        return refused;
    }
    if (notification) {
        if (notification->size() > max_notification) {
            RAILYARD_LOG(warn, agent().c_str(), "notification of %zu bytes; at most %zu are carried",
                         notification->size(), max_notification);
            return Status::invalid_param;
        }
        try {
            transfer.notification.message.assign(*notification);
        } catch (...) {
            return Status::backend;
        }
        transfer.has_notification = true;
    } else if (!keeps_last) {
        transfer.has_notification = false;
        transfer.notification.message.clear();
    }
    if (transfer.uncounted()) [[unlikely]]
        transfer.count_end(transfer.status());  // nobody has asked how it ended
    for (int losses = 0;; ++losses) {
        arm_round(transfer);
        if (!has_lost_memory(transfer)) [[likely]]
            break;
        transfer.abandon(Status::invalid_param);
        transfer.take_back_early_round();
        if (losses == most_losses || !use_other_registrations(transfer)) return finished(transfer);
    }
    if (transfer.start_control) {
        const Status held = transfer.start_control->hold(transfer);
        if (held != Status::in_progress) {
            transfer.abandon(held);
            static_cast<void>(finished(transfer));
        }
        wake();
        return held;
    }
    start(transfer);
    if (transfer.done()) return finished(transfer);
    wake();
    return Status::in_progress;
}

void Engine::Impl::start(Transfer& transfer) noexcept {
    const bool exact = transfer.total_bytes >= RateModel::large_bytes ||
                       config_.params.xfer_timeout_ms != 0 || transfer.round() % rounds_per_measurement == 1;
    transfer.exact = exact;
    // Of the others the watch wants to know only that it is another round.
    const std::uint64_t posted_before = transfer.posted_at.load(std::memory_order_relaxed);
    transfer.posted_at.store(exact ? now_ns() : posted_before + 1, std::memory_order_relaxed);
    transfer.started.store(true, std::memory_order_release);
    const bool early =
        transfer.early;  // else the round may be over, and the transfer gone, once it is offered
    if (transfer.eagerly) {
        eager_sender_.start(*transfer.eager);
    } else if (transfer.submissions.size() == 1) {
        offer(transfer, 0);
    } else if (transfer.submissions.empty()) {
        transfer.part_done(Status::ok);
    } else {
        offer_lanes(transfer, {by_weight(), callers_.mine().makes_passes(), &callers_});
    }
    if (early) transfer.send_notification();
    if (transfer.start_control) transfer.part_done(Status::ok);  // it may be freed from here on
}

/// Now and then all rails get the same, so that a slow one is seen to be fast again.
bool Engine::Impl::by_weight() noexcept {
    if (!uneven_.load(std::memory_order_relaxed)) [[likely]]
        return false;
    return weighted_posts_.fetch_add(1, std::memory_order_relaxed) % posts_per_trial != 0;
}

Status Engine::Impl::finished(Transfer& transfer) noexcept {
    const Status seen = transfer.ended_with.load(std::memory_order_relaxed);
    if (seen != Status::in_progress) return seen;
    const Status status = transfer.status();
    if (!transfer.count_end(status)) [[unlikely]]
        return transfer.ended_with.load(std::memory_order_relaxed);
    if (status != Status::ok) {
        tell_of_failure(transfer, status);
        return status;
    }
    // Read first: rounds of many transfers end at once, on any thread.
    if (transfer.peer && !transfer.peer->reached.load(std::memory_order_relaxed))
        transfer.peer->reached.store(true, std::memory_order_relaxed);
    if (transfer.exact) measure(transfer);
    return status;
}

void Engine::Impl::progress_for(Transfer& transfer) noexcept {
    callers_.mine().count_pass();
    const std::uint32_t polls = transfer.polls.load(std::memory_order_relaxed) + 1;
    transfer.polls.store(polls, std::memory_order_relaxed);
    if (polls % polls_per_full_pass == 0) {
        // What we said, or the answer, may have been lost, and this transfer waits for it.
        if (transfer.peer && transfer.peer->unacquainted()) introduce_again(transfer.peer);
        progress();
        return;
    }
    const ThreadTag me = this_thread_tag();
    const bool keeps_to_own = transfer.keeps_to.load(std::memory_order_relaxed) == me;
    for (const Route& route : transfer.routes) {
        if (keeps_to_own && route.rail->keeper().is_other_than(me)) continue;
        if (route.rail->has_work()) route.rail->progress();
        for (const Route& carrier : route.carriers) {
            if (carrier.rail->has_work()) carrier.rail->progress();
        }
    }
    if ((transfer.has_notification || transfer.eagerly || !transfer.forwardings.empty()) && transfer.peer)
        transfer.peer->control_route().rail->progress();
    run_chores();
}

void Engine::Impl::catch_up(std::uint64_t limit_ns) noexcept {
    const std::uint64_t end = now_ns() + limit_ns;
    for (std::size_t i = 0; i < rails_->size(); ++i) {
        for (auto found = Rail::Progress::busy; found != Rail::Progress::idle && now_ns() < end;) {
            found = rails_->rail(i).progress();
            if (found == Rail::Progress::busy) sched_yield();  // whoever has it may be at something older
        }
    }
}

Status Engine::Impl::poll(Transfer& transfer) noexcept {
    if (!transfer.posted) return Status::not_posted;
    if (!transfer.done()) progress_for(transfer);
    return transfer.done() ? finished(transfer) : Status::in_progress;
}

Status Engine::Impl::look(Transfer& transfer) noexcept {
    if (!transfer.posted) return Status::not_posted;
    if (transfer.done()) return finished(transfer);
    if (transfer.peer && transfer.peer->unacquainted()) introduce_again(transfer.peer);
    return Status::in_progress;
}

bool Engine::Impl::carry_immediates(Transfer& transfer, std::size_t descriptors,
                                    std::uint32_t first) noexcept {
    if (std::exchange(transfer.may_be_early, false)) {
        transfer.immediate.reset();
        transfer.forget_replaced_immediates();
        transfer.repeats = nullptr;
    }
    if (!transfer.immediate) {
        const auto carries = [](const Route& route) {
            return route.rail->carries_immediates() && route.carriers.empty() && !route.forwarding;
        };
        if (transfer.kind != Work::Kind::write || transfer.remote_flush || transfer.lanes.size() != 1 ||
            transfer.chunks.size() != descriptors ||
            !std::all_of(transfer.routes.begin() + (transfer.lane_routes.front().host_first ? 1 : 0),
                         transfer.routes.end(), carries))
            return false;
        transfer.leave_host();
    }
    transfer.immediate = first;
    return true;
}

/// Their buffers are the caller's again from here on, unless the fabric does not let go of them in time.
void Engine::Impl::cancel(std::span<Transfer* const> transfers) noexcept {
    const auto in_flight = [](const Transfer* transfer) { return transfer && !transfer->done(); };
    for (Transfer* transfer : transfers) {
        if (in_flight(transfer)) transfer->end_early(Status::canceled);
    }
    const auto wait = [&](std::uint64_t limit_ns) {
        const std::uint64_t end = now_ns() + limit_ns;
        // The first that is left is looked after: the next one's turn comes when it has ended.
        auto left = std::find_if(transfers.begin(), transfers.end(), in_flight);
        while (left != transfers.end() && now_ns() < end) {
            progress_for(**left);
            left = std::find_if(left, transfers.end(), in_flight);
        }
        return left == transfers.end();
    };
    if (wait(cancel_patience_ns)) return;
    for (Transfer* transfer : transfers) {
        if (in_flight(transfer)) interrupt_transfer(*transfer);
    }
    wait(rails_->waits_to_close() ? interrupt_limit_apart_ns : interrupt_limit_ns);
}

void Engine::Impl::release(std::span<Transfer* const> transfers) noexcept {
    cancel(transfers);
    for (Transfer* transfer : transfers) {
        if (transfer) transfers_.release(transfer);
    }
    if (transfers_.has_retired()) progress();
}

}  // namespace railyard
