// Whether peers are still there: paths that fail and come back, transfers that do not get on.
#include <algorithm>

#include "common/clock.h"
#include "common/log.h"
#include "engine/engine_impl.h"
#include "fabric/sockets.h"

namespace railyard {
namespace {

/// Between two looks while there is something to see, and else.
constexpr std::uint64_t watch_ns = 50'000'000;
constexpr std::uint64_t weighing_ns = 5'000'000;  // of rails
constexpr std::uint64_t calm_watch_ns = 250'000'000;
constexpr std::uint64_t shortest_watch_ns = 5'000'000;  // however little time transfers have
/// More than that between two looks: the machine or the process was stopped, or its program did not call in.
constexpr std::uint64_t overslept_ns = 2 * calm_watch_ns;
/// An operation that has been found unanswered so often, half a peer_timeout_ms apart, never will be.
constexpr std::uint8_t unanswered_looks = 4;
/// All files of the process are gone through, and what is found for one peer renews the connections of all.
constexpr std::uint8_t looks_between_sockets = 6;
constexpr std::uint64_t ping_patience_ns = 250'000'000;
/// Nothing of ours is with the provider where the peer moves the bytes, so that it tells of no death.
constexpr std::uint64_t keepalive_under_requests_ns = 100'000'000;

/// At each look at a peer whose process has ended, while anything to it is in flight: it may have been
/// disconnected before, a post that began before comes after, and a rail may have been short of something.
/// Stopped first, as what comes back from its rails, or waits there, would go to it from another endpoint.
void end_with_process(Peer& peer, TransferList& transfers) {
    if (!peer.gone()) RAILYARD_LOG(warn, peer.agent().c_str(), "it has ended");
    peer.mark_gone();
    transfers.stop_transfers_to(peer, Status::remote_disconnect);
    peer.abandon();
}

}  // namespace

void Engine::Impl::ping(const std::shared_ptr<Peer>& peer, PeerEndpoint& endpoint,
                        std::uint64_t patience_ns) {
    std::unique_ptr<OwnMessage> message;
    try {
        message = spare_message(peer, MessageKind::ping);
    } catch (const std::bad_alloc&) {
        return peer->probe_again(endpoint, now_ns());
    }
    message->patience_ns = patience_ns;
    message->probed = &endpoint;
    message->failures_before = endpoint.path.failures();
    message->confirms = patience_ns == ping_patience_ns;
    send_over(endpoint.route(), std::move(message));
}

/// Not with a rail's role held: who inserts a peer's addresses has its mutex and waits for the role.
void Engine::Impl::finish_ping(OwnMessage& message) noexcept {
    if (message.result == Status::canceled) return;
    const bool failed = message.path->failed();
    const std::uint64_t now = now_ns();
    if (message.result == Status::ok && message.path->failures() != message.failures_before) {
        message.peer->probe_again(*message.probed, now);  // it had left before
        return watch_soon();
    }
    // Transfers that are given up keep taking its sender away, and refused ones its connection: a peer that
    // is there may lose one such probe, one that is not answers none.
    if (message.lost &&
        message.peer->excuse(*message.probed, now, config_.params.peer_timeout_ms * 1'000'000))
        return watch_soon();
    message.peer->probed(*message.probed, message.result == Status::ok, message.confirms, now);
    if (message.path->failed() == failed) return;
    RAILYARD_LOG(info, message.peer->agent().c_str(), "%s on %s",
                 failed ? "answers again" : "does not answer", message.probed->rail->name().c_str());
    watch_soon();
}

void Engine::Impl::watch_soon() noexcept {
    next_watch_.store(0, std::memory_order_relaxed);
    wake();
}

void Engine::Impl::watch() noexcept {
    const auto when = [](const auto& time) { return time.load(std::memory_order_relaxed); };
    if (now_ns() < std::min(when(next_watch_), when(next_weighing_))) return;
    if (watching_.exchange(true, std::memory_order_acquire)) return;
    const std::uint64_t now = now_ns();  // not before another thread's that has looked meanwhile
    const bool due = now >= when(next_watch_);
    weigh_rails(now);
    if (due) look_after_all(now);
    watching_.store(false, std::memory_order_release);
    if (due) run_chore_now();
}

/// Between two looks; ns.
std::uint64_t Engine::Impl::longest_pause() const noexcept {
    const std::uint64_t limit = config_.params.xfer_timeout_ms * 1'000'000;
    return limit ? std::clamp(limit / 4, shortest_watch_ns, calm_watch_ns) : calm_watch_ns;
}

/// Of who has set watching_.
void Engine::Impl::look_after_all(std::uint64_t now) noexcept {
    free_sent_messages();  // where only the progress thread drives
    const std::uint64_t half = config_.params.peer_timeout_ms * 1'000'000 / 2;
    overslept_ = now - std::exchange(looked_at_, now) > std::max(overslept_ns, half);
    const std::uint64_t longest = longest_pause();
    std::uint64_t next = now + longest;
    next_watch_.store(next, std::memory_order_relaxed);  // what happens from here on brings it forward
    ++look_;
    if (looks_without_sockets_ != 0) --looks_without_sockets_;
    const auto look_at = [&](const std::shared_ptr<Peer>& peer) {
        try {
            next = std::min(next, look_after(peer, now));
        } catch (const std::exception& error) {  // the others' turn comes all the same
            RAILYARD_LOG(warn, peer->agent().c_str(), "it could not be looked after: %s", error.what());
        }
    };
    try {
        peers_.list(watched_peers_);
        for (const std::shared_ptr<Peer>& peer : watched_peers_)
            peer->watched.listed_in = look_;
        if (look_at_transfers(now)) {
            next = now + std::min(watch_ns, longest);
            look_at_rails(now);
        } else {
            pace_.pause();
        }
        if (now >= next_unanswered_look_) look_for_unanswered(now);
        for (const std::shared_ptr<Peer>& peer : watched_peers_)
            look_at(peer);
        for (const std::shared_ptr<Peer>& peer : unlisted_peers_) {
            look_at(peer);
            if (peer->state() == PeerState::gone && !peer->gone()) renew_stranger(*peer);
        }
        give_back_overdue();
        inbox_.drop_stale(now);
        mapped_memory_.look(watched_peers_, *rails_, now);
        next = std::min(next, tell(now));
    } catch (const std::exception& error) {
        RAILYARD_LOG(warn, agent().c_str(), "peers could not be looked after: %s", error.what());
    }
    watched_peers_.clear();
    unlisted_peers_.clear();
    std::uint64_t expected = now + longest;
    next_watch_.compare_exchange_strong(expected, next, std::memory_order_relaxed);
}

/// Peers may be well, and answer others all the while.
void Engine::Impl::look_for_unanswered(std::uint64_t now) noexcept {
    next_unanswered_look_ = now + config_.params.peer_timeout_ms * 1'000'000 / 2;
    for (std::size_t i = 0; i < rails_->size(); ++i)
        rails_->rail(i).look_for_unanswered(unanswered_looks);
}

void Engine::Impl::look_at_rails(std::uint64_t now) {
    for (std::size_t i = 0; i < looks_.size(); ++i) {
        const Rail& rail = rails_->rail(i);
        looks_[i] = {rail.bytes_carried(), rail.bytes_under_way(),
                     double{1} * rail.weight() / Rail::full_weight};
    }
    if (!pace_.look(looks_, now)) return;
    for (const RailPace::Change& change : pace_.changes()) {
        const double mega = 1e-6;
        RAILYARD_LOG(
            warn, rails_->rail(change.rail).name().c_str(),
            change.crawls
                ? "crawls: %.0f MB/s, where the others carry %.0f MB/s: its NIC, its link or a peer is "
                  "slow, and it gets less of every transfer"
                : "keeps up again: %.0f MB/s, the others %.0f MB/s",
            change.rate * mega, change.others * mega);
    }
}

void Engine::Impl::weigh_rails(std::uint64_t now) noexcept {
    next_weighing_.store(rails_->size() > 1 ? now + weighing_ns : UINT64_MAX, std::memory_order_relaxed);
    for (std::size_t i = 0; i < rates_of_rails_.size(); ++i)
        rates_of_rails_[i] = rails_->rail(i).measured_rate();
    const bool changed = weights_.look(rates_of_rails_);
    for (std::size_t i = 0; i < rates_of_rails_.size(); ++i) {
        Rail& rail = rails_->rail(i);
        const std::uint32_t before = rail.weight(), weight = weights_.weight(i);
        if (weight == before) continue;
        rail.set_weight(weight);
        if (!changed || (weight < Rail::full_weight && before < Rail::full_weight)) continue;
        RAILYARD_LOG(info, rail.name().c_str(), "measured %.0f MB/s: gets %u %% of the others' share",
                     static_cast<double>(rates_of_rails_[i].bytes_per_second) * 1e-6,
                     weight * 100 / Rail::full_weight);
    }
    uneven_.store(weights_.uneven(), std::memory_order_relaxed);
}

/// True while any is in flight. Adds to unlisted_peers_.
bool Engine::Impl::look_at_transfers(std::uint64_t now) {
    bool any = false;
    transfers_.for_each([&](Transfer& transfer, bool in_flight, std::uint32_t round) {
        if (transfer.peer) note_progress(transfer, in_flight, now);
        if (!in_flight) return;
        any = true;
        end_overdue(transfer, round, now);
    });
    return any;
}

/// Of a transfer between two peers.
void Engine::Impl::note_progress(Transfer& transfer, bool in_flight, std::uint64_t now) {
    auto& watched = transfer.peer->watched;
    const std::uint64_t posted = transfer.posted_at.load(std::memory_order_relaxed);
    const auto rounds = static_cast<std::uint32_t>(transfer.ended_well.load(std::memory_order_relaxed));
    const bool ended_well = std::exchange(transfer.seen_ended, rounds) != rounds;
    if (!in_flight) {
        // It may have come and gone since the last look, and nobody has asked yet how it ended.
        const bool ended = posted != transfer.seen_posted || transfer.seen_left != UINT32_MAX;
        if (ended_well || (ended && transfer.done() && transfer.status() == Status::ok)) watched.move(now);
        transfer.seen_posted = posted;
        transfer.seen_left = UINT32_MAX;
        return;
    }
    const std::uint32_t left = transfer.parts_left();
    // That more is posted says nothing of the peer.
    const bool same_round = posted == transfer.seen_posted, same_left = left == transfer.seen_left;
    if (ended_well || (same_round && !same_left) || !watched.was_in_flight) watched.move(now);
    if (!same_round || !same_left || !watched.was_in_flight) transfer.moved_at = now;
    if (std::exchange(watched.listed_in, look_) != look_) unlisted_peers_.push_back(transfer.peer);
    watched.stuck_since =
        watched.in_flight ? std::min(watched.stuck_since, transfer.moved_at) : transfer.moved_at;
    watched.in_flight = true;
    watched.moves_for_us = watched.moves_for_us || !transfer.forwardings.empty() || transfer.may_be_eager;
    transfer.seen_left = left;
    transfer.seen_posted = posted;
}

/// Later than xfer_timeout_ms.
void Engine::Impl::end_overdue(Transfer& transfer, std::uint32_t round, std::uint64_t now) noexcept {
    const std::uint64_t limit = config_.params.xfer_timeout_ms * 1'000'000;
    const std::uint64_t posted = transfer.posted_at.load(std::memory_order_relaxed);
    if (!limit || now <= posted || now - posted <= limit) return;
    if (!transfer.end_early(Status::canceled, round)) return;
    RAILYARD_LOG(warn, transfer.peer ? transfer.peer->agent().c_str() : agent().c_str(),
                 "a transfer has taken more than xfer_timeout_ms = %llu",
                 static_cast<unsigned long long>(config_.params.xfer_timeout_ms));
    interrupt_transfer(transfer);
}

/// Where senders wait before they are closed, they wait to hear of their peers.
void Engine::Impl::interrupt_transfer(Transfer& transfer) noexcept {
    transfer.interrupt();
    if (!transfer.peer || !rails_->waits_to_close()) return;
    transfer.peer->ask_all();
    watch_soon();
}

/// `asked`: it moves bytes for us, and must be looked after more often.
void Engine::Impl::keep_alive(const std::shared_ptr<Peer>& peer, std::uint64_t now, bool in_flight,
                              bool asked) {
    std::uint64_t keepalive = config_.params.keepalive_ms * 1'000'000;
    if (asked) keepalive = std::min(keepalive, keepalive_under_requests_ns);
    // Under transfers, too, once they do not get on, where only that tells of a death: elsewhere a provider
    // that refuses has no room, and a peer that nobody drives is well.
    const bool stuck_long = (asked || rails_->connects()) && now - peer->watched.stuck_since > keepalive;
    if (!keepalive || peer->handles == 0 || (in_flight && !stuck_long)) return;
    // Who has never answered may only not have called in yet, and a connection takes that.
    const DueKeepalive due = peer->due_keepalive(now, keepalive, in_flight && !asked);
    if (due.endpoint)
        ping(peer, *due.endpoint,
             due.is_first ? config_.params.connect_timeout_ms * 1'000'000 : ping_patience_ns);
}

/// All but those whose address is none that its rail takes.
void Engine::Impl::resolve_paths(Peer& peer) noexcept {
    try {
        peer.resolve_all();
    } catch (const std::exception& error) {
        RAILYARD_LOG(debug, peer.agent().c_str(), "some paths are missing: %s", error.what());
    }
}

Peer::Health Engine::Impl::ask_paths(const std::shared_ptr<Peer>& peer, std::uint64_t now,
                                     std::uint64_t patience) {
    to_probe_.clear();
    const Peer::Health health = peer->look_at_paths(now, patience, to_probe_);
    for (PeerEndpoint* endpoint : to_probe_)
        ping(peer, *endpoint, ping_patience_ns);
    return health;
}

std::uint64_t Engine::Impl::look_after(const std::shared_ptr<Peer>& peer, std::uint64_t now) {
    if ((!peer->gone() || peer->watched.in_flight) && peer->look_at_process())
        end_with_process(*peer, transfers_);
    const std::uint64_t patience = config_.params.peer_timeout_ms * 1'000'000;
    const std::uint32_t freed = peer->traffic.freed() + peer->served.load(std::memory_order_relaxed);
    if (std::exchange(peer->watched.seen_freed, freed) != freed) peer->watched.move(now);
    const bool asked = std::exchange(peer->watched.moves_for_us, false) && !peer->unacquainted();
    const bool excused = overslept_ && peer->watched.excuse(now, patience);
    const bool in_flight = std::exchange(peer->watched.in_flight, false);
    peer->watched.was_in_flight = in_flight;
    const bool silent = in_flight && now - peer->watched.moved_at > patience;
    if (peer->gone()) {
        if (rails_->waits_to_close() && peer->is_to_be_asked()) ask_paths(peer, now, patience);
        if (!silent) return UINT64_MAX;
        peer->watched.moved_at = now;  // where it cannot be interrupted, not again at once
        end_transfers_to(*peer, true);
        return UINT64_MAX;
    }
    if (rails_->connects()) look_at_connections(*peer, now, in_flight);
    const bool lost = silent && peer->has_answered(now - patience / 2) && carry_out_again(*peer);
    if (silent && !lost) {
        RAILYARD_LOG(warn, peer->agent().c_str(), "nothing has got on for %llu ms: given up",
                     static_cast<unsigned long long>(config_.params.peer_timeout_ms));
        resolve_paths(*peer);
        peer->fail_all();
        peer->watched.moved_at = now;  // where it cannot be interrupted, not again at once
    }
    to_probe_.clear();
    const bool stuck = in_flight && !excused && now - peer->watched.stuck_since > patience / 4;
    const bool unsure = stuck || peer->has_doubts();
    if (unsure || peer->has_failures()) resolve_paths(*peer);  // all are looked at before it is called gone
    if (unsure) {
        peer->compare_paths(now, patience / 4, to_probe_);
        for (PeerEndpoint* endpoint : to_probe_)
            ping(peer, *endpoint, patience);  // it may only be slow
    }
    const Peer::Health health = ask_paths(peer, now, patience);
    if (health.failed != 0 && health.failed < health.paths) peer->leave_failed_control_route();
    replace_held_up_senders(*peer, now);
    tell_of_paths(*peer, health);
    if (health.paths == 0) return UINT64_MAX;
    // One that the fabric does not get through to, and the kernel does, may only not be driven yet.
    if (health.dead == health.paths && !peer->is_there_on_host()) {
        // What is in flight ends by itself where somebody says that nobody is there; it is interrupted when
        // nobody does.
        const bool news = peer->move_to(PeerState::gone);
        if (news || silent) end_transfers_to(*peer, silent);
    } else if (health.failed || health.overdue || stuck) {
        peer->move_to(PeerState::suspect);
    } else if (!peer->gone()) {
        peer->move_to(peer->unacquainted() ? PeerState::connecting : PeerState::ready);
    }
    keep_alive(peer, now, in_flight, asked);
    return health.failed ? now + watch_ns : UINT64_MAX;
}

/// Once a look: a peer that is gone has many paths.
void Engine::Impl::tell_of_paths(Peer& peer, const Peer::Health& health) {
    const auto failed = static_cast<std::uint32_t>(health.failed);
    if (std::exchange(peer.watched.failed_paths, failed) == failed) return;
    if (health.failed) {
        RAILYARD_LOG(warn, peer.agent().c_str(), "does not answer on %zu of %zu paths", health.failed,
                     health.paths);
    } else {
        RAILYARD_LOG(warn, peer.agent().c_str(), "answers again on all of %zu paths", health.paths);
    }
}

void Engine::Impl::replace_held_up_senders(Peer& peer, std::uint64_t now) {
    held_up_.clear();
    peer.find_held_up(now, ping_patience_ns, held_up_);
    for (Rail* rail : held_up_)
        rail->look_for_unanswered(1);
}

/// Networks forget connections that have been idle: what is sent over them is lost without a word, and new
/// ones are carried. Once in each silence: one that is gone does not answer on new ones either. Not while its
/// kernel answers: it is only slow or stopped, and would get everything twice.
void Engine::Impl::look_at_connections(Peer& peer, std::uint64_t now, bool in_flight) {
    const std::uint64_t patience = config_.params.peer_timeout_ms * 1'000'000;
    const bool silent = in_flight ? now - peer.watched.moved_at > patience / 2 : peer.has_doubts();
    peer.watched.reconnected = peer.watched.reconnected && silent;
    if (!silent || peer.watched.reconnected || looks_without_sockets_ != 0) return;
    looks_without_sockets_ = looks_between_sockets;
    peer.watched.reconnected = true;
    if (!fabric::send_in_vain(peer.addresses(), patience / 4) || !peer.renew_senders()) return;
    RAILYARD_LOG(warn, peer.agent().c_str(),
                 "its connections are dead, and may only have been forgotten: others are tried");
}

/// It answers all the while, so the answers to what is in flight have been lost. Once in a round of each
/// transfer; a few times where operations may wait for an answer to a handshake, too.
bool Engine::Impl::carry_out_again(Peer& peer) {
    const std::uint8_t most = rails_->waits_to_close() ? 3 : 1;
    bool some = false;
    transfers_.for_each([&](Transfer& transfer, bool in_flight, std::uint32_t) {
        if (in_flight && transfer.peer.get() == &peer) some = transfer.count_renewal(most) || some;
    });
    if (!some || !peer.renew_senders()) return false;
    RAILYARD_LOG(warn, peer.agent().c_str(),
                 "answers, and nothing in flight has got on for %llu ms: carried out again",
                 static_cast<unsigned long long>(config_.params.peer_timeout_ms));
    peer.watched.moved_at = now_ns();
    return true;
}

void Engine::Impl::end_transfers_to(Peer& peer, bool interrupt) {
    transfers_.stop_transfers_to(peer, Status::remote_disconnect);
    if (!interrupt) return;
    transfers_.for_each([&](Transfer& transfer, bool in_flight, std::uint32_t) {
        if (in_flight && transfer.peer.get() == &peer) interrupt_transfer(transfer);
    });
}

}  // namespace railyard
