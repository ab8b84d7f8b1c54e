#include "engine/transfer.h"

#include <algorithm>
#include <iterator>
#include <new>

namespace railyard {
namespace {

/// Registrations that must not be deregistered, and those that may be, but stay with one rail.
struct KeptForOperation final : KeptMemory {
    ~KeptForOperation() override {
        for (const auto& region : pinned)
            region->given_up.fetch_sub(1, std::memory_order_release);
    }
    std::vector<std::shared_ptr<Registration>> pinned;
    std::vector<std::shared_ptr<void>> with_rail;
};

/// Of a round. Each takes an answer of the owner's, who may register the memory anew all the time.
constexpr std::uint64_t renewals_a_chunk = 4, renewals_a_round = 16;

}  // namespace

RemoteFlush::RemoteFlush(Transfer& owner, Route over) : transfer(owner), route(std::move(over)) {
    const auto regions = static_cast<std::uint32_t>(route.forwarding->remotes.size());
    chunks.resize(regions);
    for (std::uint32_t i = 0; i < regions; ++i)
        chunks[i].remote_region = i;
    lanes.emplace_back(*this, 0, regions);
    submission.lane = lanes.data();
    submission.route = &route;
}

void RemoteFlush::start() noexcept {
    arm(1, [](Work& work) noexcept {
        auto& flush = static_cast<RemoteFlush&>(work);
        Transfer& owner = flush.transfer;
        if (flush.status() != Status::ok) owner.stop(flush.status());
        flush.part_done(Status::ok);  // over, so that the transfer may go with what follows
        owner.finish_data();
    });
    submission.rearm();
    route.rail->submit(submission);
}

void Transfer::finish_round(Work& work) noexcept {
    auto& transfer = static_cast<Transfer&>(work);
    for (Gpu* gpu : transfer.late_gpus) {
        if (transfer.status() != Status::ok) break;
        if (const Status flushed = gpu->flush(); flushed != Status::ok) transfer.stop(flushed);
    }
    if (transfer.remote_flush && transfer.status() == Status::ok) {
        transfer.remote_flush->start();
        return;
    }
    transfer.finish_data();
}

void Transfer::finish_data() noexcept {
    if (start_control) start_control->data_ended(*this, status());
    if (early || status() != Status::ok || !has_notification) {
        end_early_round();
        part_done(status());
        return;
    }
    if (!peer) {
        Status put = Status::ok;
        try {
            own_inbox->put(*own_agent, notification.message);
        } catch (...) {
            put = Status::backend;
        }
        part_done(put);
        return;
    }
    send_notification();
}

void Transfer::send_notification() noexcept {
    const ControlRoute route = peer->control_route();
    const MessageKind ahead =
        notification.marks.operations > 1 ? MessageKind::notify_early_several : MessageKind::notify_early;
    notification.kind = early ? ahead : MessageKind::notify;
    notification.path = route.path;
    notification.attempts = 0;
    notification.start(*own_agent, own_nonce, early ? early_id : peer->next_message_id(), route.address,
                       peer->nonce(), own_inbox->auth());
    route.rail->send(notification);
}

void Transfer::give_up_early_round() noexcept {
    peer->early().doubt();
    const MutexLock lock(asked.mutex);
    asked.about.clear();
}

Work::Verdict Transfer::may_repeat_early(Work& work, std::uint32_t chunk) noexcept {
    auto& transfer = static_cast<Transfer&>(work);
    const MutexLock lock(transfer.asked.mutex);
    auto& about = transfer.asked.about;
    auto entry =
        std::find_if(about.begin(), about.end(), [&](const auto& one) { return one.first == chunk; });
    try {
        if (entry == about.end()) {
            about.reserve(about.size() + 1);
            about.emplace_back(chunk, transfer.inquiries->ask(transfer.peer, transfer.immediate_of(chunk),
                                                              transfer.early_id));
            entry = std::prev(about.end());
        }
        const Verdict verdict = entry->second->verdict();
        if (verdict == Verdict::repeat) transfer.replace_immediate(chunk, entry->second->next);
        if (verdict != Verdict::unknown) about.erase(entry);
        return verdict;
    } catch (const std::bad_alloc&) {
        return Verdict::unknown;  // asked again with the next look
    }
}

bool Transfer::may_renew_again() noexcept {
    const std::uint64_t most = renewals_a_chunk * chunks.size() + renewals_a_round;
    std::uint64_t before = renewed.load(std::memory_order_relaxed), now = 0;
    do {
        const bool of_this_round = before >> 32 == round();
        now = of_this_round ? before + 1 : std::uint64_t{round()} << 32 | 1;
    } while (!renewed.compare_exchange_weak(before, now, std::memory_order_relaxed));
    return (now & UINT32_MAX) <= most;
}

/// An answer counts for what was refused before its question was asked: it may be old by then. But what was
/// refused for an older key than the one that is known by now need not be asked about.
Work::Verdict Transfer::renew_keys(Work& work, const Refusal& refusal) noexcept {
    auto& transfer = static_cast<Transfer&>(work);
    RemoteRegion& region = *transfer.remotes[refusal.chunk.remote_region];
    try {
        if (region.key_on(refusal.route.remote_rail).key != refusal.key)
            return transfer.take_present_key(refusal, region);
        const MutexLock lock(region.renewed.mutex);
        std::shared_ptr<KeyInquiry>& inquiry = region.renewed.inquiry;
        if (!inquiry || inquiry->asked_at < refusal.at)
            transfer.key_inquiries->ask(inquiry, transfer.peer, region, refusal);
        const Verdict verdict = inquiry->verdict();
        if (verdict != Verdict::repeat) return verdict;
        region.renew(inquiry->keys());
    } catch (const std::bad_alloc&) {
        return Verdict::unknown;  // asked again with the next look
    }
    return transfer.take_present_key(refusal, region);
}

Work::Verdict Transfer::take_present_key(const Refusal& refusal, RemoteRegion& region) noexcept {
    const std::uint32_t which = refusal.chunk.remote_region;
    const RemoteKey present = region.key_on(refusal.route.remote_rail);
    if (present.key == refusal.key || !may_renew_again()) return Verdict::lost;
    for (Route& own : routes) {
        if (&own == &refusal.route) own.keys[which] = present;
        for (Route& carrier : own.carriers) {
            if (&carrier == &refusal.route) carrier.keys[which] = present;
        }
    }
    return Verdict::repeat;
}

void Transfer::on_notified(OutMessage& message, Status status) noexcept {
    // The message is a member of its transfer.
    auto& notification = static_cast<OutNotification&>(message);
    if (status == Status::remote_disconnect && notification.wanted() == Status::ok &&
        notification.retry->undelivered(notification))
        return;
    if (status == Status::ok) PeerTraffic::count(notification.peer->traffic.notifications);
    notification.owner->part_done(status);
}

void Transfer::leave_host() noexcept {
    for (RouteRange& range : lane_routes) {
        if (!std::exchange(range.host_first, false)) continue;
        ++range.begin;
        for (std::uint32_t i = range.begin; i < range.end; ++i)
            submissions[i].alternatives = {routes.data() + range.begin, range.end - range.begin};
    }
}

void Transfer::leave_counts() noexcept {
    if (uncounted() && done()) count_end(status());
    if (!peer) return;
    const std::uint64_t rounds = ended_well.load(std::memory_order_relaxed);
    if (of_peer) {
        peer->served.fetch_add(static_cast<std::uint16_t>(rounds), std::memory_order_relaxed);
        return;
    }
    PeerTraffic::Direction& direction = peer->traffic.directions[static_cast<std::size_t>(kind)];
    PeerTraffic::count(direction.transfers, rounds);
    PeerTraffic::count(direction.bytes, rounds * total_bytes);
}

void Transfer::interrupt() noexcept {
    for (const Route& route : routes) {
        route.rail->request_renewal();
        for (const Route& carrier : route.carriers)
            carrier.rail->request_renewal();
    }
    if (!peer || (!has_notification && !may_be_eager)) return;
    // It may have left before its path failed and another was chosen.
    if (peer->has_failures()) {
        peer->renew_senders();
    } else {
        peer->control_route().rail->request_renewal();
    }
}

std::unique_ptr<KeptMemory> Transfer::keep_memory(const Work& work, Run chunks, const Route& route,
                                                  KeptAs as) noexcept {
    const auto& locals = static_cast<const Transfer&>(work).locals;
    const auto local_of = [&](std::uint32_t chunk) { return work.chunks[chunk].local_region; };
    try {
        auto kept = std::make_unique<KeptForOperation>();
        kept->pinned.reserve(as == KeptAs::pinned ? chunks.size() : 0);
        for (std::uint32_t i = chunks.begin; i < chunks.end; ++i) {
            const auto& region = locals[local_of(i)];
            if (as == KeptAs::pinned) {
                region->given_up.fetch_add(1, std::memory_order_seq_cst);
                kept->pinned.push_back(region);
                continue;
            }
            for (const RegisteredMemory& memory : region->memory) {
                if (memory.descriptor == route.descriptors[local_of(i)])
                    kept->with_rail.push_back(memory.owner);
            }
        }
        return kept;
    } catch (const std::bad_alloc&) {
        for (std::uint32_t i = chunks.begin; i < chunks.end; ++i)
            locals[local_of(i)]->given_up.fetch_add(1, std::memory_order_seq_cst);
        return nullptr;
    }
}

bool Transfer::uses(const Registration& region) const noexcept {
    const auto same_local = [&](const auto& local) { return local.get() == &region; };
    const auto same_remote = [&](const auto& remote) { return remote->self.get() == &region; };
    return std::any_of(locals.begin(), locals.end(), same_local) ||
           std::any_of(remotes.begin(), remotes.end(), same_remote);
}

bool Transfer::revoked() const noexcept {
    const auto gone = [](const Registration& region) {
        return region.revoked.load(std::memory_order_acquire);
    };
    return std::any_of(locals.begin(), locals.end(), [&](const auto& local) { return gone(*local); }) ||
           std::any_of(remotes.begin(), remotes.end(),
                       [&](const auto& remote) { return remote->self && gone(*remote->self); });
}

}  // namespace railyard
