#include "rail/fabric_rail.h"

#include <algorithm>

#include "common/clock.h"
#include "common/log.h"
#include "fabric/direct_access.h"
#include "rail/deferred_close.h"

namespace railyard {
namespace {

/// Of a peer that takes nothing, when its last operation has failed already: tcp says "again" to whoever
/// wants to connect to a process that has gone.
constexpr std::uint64_t failed_patience_ns = 100'000'000;
constexpr std::uint32_t rounds_between_event_reads = 4096;
constexpr std::uint64_t longest_chunk = std::uint64_t{1} << 30;

/// Operations that may be outstanding: what the endpoint takes, less the control channel's share.
std::size_t credits(const fabric::ProviderCaps& caps) {
    const std::size_t depth = std::clamp<std::size_t>(caps.transmit_depth, 32, 4096);
    return depth - std::min(ControlChannel::send_slots, depth / 2);
}

}  // namespace

FabricRail::Opened::Opened(const std::shared_ptr<const fabric::Device>& device, const std::string& rail,
                           bool blocking)
    : domain(device, rail),
      queue(domain, credits(device->caps) + ControlChannel::send_slots + ControlChannel::receive_slots,
            blocking),
      wait(domain, queue),
      addresses(domain),
      endpoint(domain, queue, addresses) {
    if (domain.caps().separate_sender) sender = new_sender();
}

std::unique_ptr<fabric::Endpoint> FabricRail::Opened::new_sender() {
    return std::make_unique<fabric::Endpoint>(domain, queue, addresses, fabric::Endpoint::Duty::send);
}

FabricRail::FabricRail(std::string name, const std::shared_ptr<const fabric::Device>& device,
                       ControlSink& sink, FabricRailConfig config)
    : Rail(std::move(name)),
      config_(config),
      fabric_(std::make_shared<Opened>(device, this->name(), config.blocking)),
      depth_(credits(device->caps)),
      pieces_(std::min(device->caps.rma_pieces, fabric::RmaRow::most_pieces)) {
    RoleGuard guard(role_);
    fabric_->control =
        std::make_unique<ControlChannel>(fabric_->domain, fabric_->endpoint, sink, config.give_up_after_ns);
    control_ = fabric_->control.get();
    fabric_->queue.tell_of_immediates(&sink);
    sending_ = fabric_->sender ? fabric_->sender.get() : &fabric_->endpoint;
    control_->send_from(sending_);
    returned_.reserve(depth_ * pieces_);
    fabric_->operations.reserve(kept_generations);
    fabric_->old_sends.reserve(kept_generations);
    use(std::make_unique<Operations>(depth_));
    publish_sender();
    if (device->caps.shares_endpoints) DeferredClose::opened(fabric_->endpoint.name());
    RAILYARD_LOG(info, this->name().c_str(), "opened %s device %s: %zu operations deep, %s%s",
                 device->provider.c_str(), device->name.c_str(), depth_,
                 wait_fd() >= 0 ? "waitable" : "polled", reaches_gpu_memory() ? ", reaches GPU memory" : "");
}

FabricRail::~FabricRail() {
    RoleGuard guard(role_);
    control_->queue(outbox_.take_all());
    control_->cancel_all();
    if (fabric_->domain.caps().shares_endpoints) DeferredClose::closed(fabric_->endpoint.name(), fabric_);
}

RegisteredMemory FabricRail::register_memory(const MemoryRange& range) {
    auto region = std::make_shared<fabric::MemoryRegion>(fabric_->domain, fabric_->endpoint, range);
    RegisteredMemory memory{region, region->descriptor(), region->key(), region->address_base()};
    return memory;
}

std::uint64_t FabricRail::max_chunk() const noexcept {
    return std::min<std::uint64_t>(fabric_->domain.caps().max_rma, longest_chunk);
}

PeerAddress FabricRail::do_insert_peer(std::string_view address) {
    if (fabric_->domain.caps().direct_rma && !fabric::may_access_process_of(address)) {
        RAILYARD_LOG(info, name().c_str(),
                     "the kernel does not let us write to a peer's memory: writes go by way of it");
        indirect_ = true;
        if (sending_) sending_->confirm_delivery();
    }
    return fabric_->addresses.insert(address);
}

void FabricRail::do_remove_peer(PeerAddress peer) noexcept {
    if (fabric_->addresses.remove(peer) && sending_) sending_->forget(peer);
}

bool FabricRail::may_wait() noexcept {
    return pending_.empty() && returned_.empty() && !renewal_requested_.load(std::memory_order_relaxed) &&
           !control_->has_pending() && fabric_->wait.may_wait();
}

RailCounters FabricRail::do_count() const noexcept {
    RailCounters counters = counters_;
    counters.control = control_->counters();
    return counters;
}

void FabricRail::publish_load() noexcept {
    load_.store(outstanding() + waiting_ + static_cast<std::uint32_t>(returned_.size()) +
                    control_->outstanding() + (control_->has_pending() ? 1 : 0),
                std::memory_order_relaxed);
    bytes_carried_.store(carried_bytes(), std::memory_order_relaxed);
    bytes_under_way_.store(outstanding_bytes(), std::memory_order_relaxed);
}

bool FabricRail::is_calm() const noexcept {
    return pending_.empty() && returned_.empty() && sending_ && !renewal_needed_ &&
           !renewal_requested_.load(std::memory_order_relaxed) && !fabric_->queue.broken() &&
           control_->is_calm();
}

bool FabricRail::post_at_once(Submission& submission) noexcept {
    Lane& lane = *submission.lane;
    const Route& route = *submission.route;
    if (!lane.is_single() || lane.striped || !submission.run.empty() || !is_calm()) return false;
    if (room() == 0 || !may_take(lane) || lane.work->status() != Status::ok) return false;
    if (route.has_failed()) return false;
    if (route.gated && !route.path->admits(sender_generation())) return false;
    submission.run = lane.take_alone();
    if (!submission.run.empty()) {
        const bool ended = lane.work->end_hand_over_early();
        if (post_chunks(submission, submission.run, 1) != fabric::PostResult::ok) {
            if (ended) lane.work->resume_hand_over();
            return false;
        }
        publish_load();
        if (ended) return true;
    }
    lane.work->part_done(Status::ok);
    return true;
}

/// One round's completions, and a look at how fast they come where there is enough under way to tell.
std::size_t FabricRail::drain() noexcept {
    const std::size_t ended = fabric_->queue.drain(completions_per_round);
    if (outstanding_bytes() < RateMeter::burst_bytes) {
        meter_.pause();
    } else if (config_.compared && ended != 0 && ended < completions_per_round &&
               meter_.look({now_ns(), carried_bytes(), outstanding_bytes(), posted_})) {
        rate_.store(meter_.rate(), std::memory_order_relaxed);
        rate_samples_.store(meter_.samples(), std::memory_order_relaxed);
    }
    return ended;
}

bool FabricRail::serve(bool drain_first) noexcept {
    bool worked = drain_first && drain() > 0;
    const bool reads_events = fabric_->domain.caps().connected || ++rounds_ % rounds_between_event_reads == 0;
    if (drain_first && !reads_events && is_calm() && inbox_.empty() && outbox_.empty()) {
        if (worked) publish_load();
        return worked;
    }
    worked = settle_failures() || worked;
    waiting_ += take_submissions(pending_);
    control_->queue(outbox_.take_all());
    worked = control_->post_pending() || worked;
    worked = post_pending() || worked;
    if (!drain_first && (wants_room_ || control_->wants_room()) && drain() > 0) {
        settle_failures();
        control_->post_pending();
        post_pending();
        worked = true;
    }
    if (reads_events) worked = fabric_->domain.drain_events() || worked;
    publish_load();
    return worked;
}

bool FabricRail::post_pending() noexcept {
    bool posted = false;
    blocked_.clear();
    given_up_.clear();
    PendingList<Submission> kept;
    bool full = false;
    wants_room_ = false;
    while (!pending_.empty() && room() != 0 && !blocked_.full()) {
        Submission& submission = *pending_.pop_front();
        if (blocked_.contains(submission.route->destination)) {
            kept.push_back(submission);
            continue;
        }
        const bool alone = pending_.empty() && kept.empty();
        if (!submission.in_turn && full && !alone) {
            kept.push_back(submission);  // somebody before it waits for room
            continue;
        }
        if (!has_turn(submission, alone)) {
            pending_.push_back(submission);
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
                pending_.push_back(submission);
                break;
            case Served::through:
                --waiting_;
                posted = true;
                submission.lane->work->part_done(Status::ok);
                break;
        }
    }
    wants_room_ |= !pending_.empty();
    pending_.prepend(kept);
    return posted;
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

bool FabricRail::may_take(const Lane& lane) const noexcept {
    if (lane.striped) return outstanding() < striped_operations && outstanding_bytes() < striped_bytes;
    return outstanding_bytes() < most_bytes || outstanding() < least_operations;
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
        return refused(submission, "has not answered our introduction");
    }
    if (submission.run.empty()) {
        if (room() == 0 || !may_take(lane)) return Served::full;
        const std::uint32_t most = submission.most_outstanding();
        if (most == 0) return Served::through;  // others are through with the rest before it would be
        if (submission.outstanding >= most) return Served::waits;
        submission.run = lane.take_run(std::min({lane.run_length, room(), most - submission.outstanding}));
        if (submission.run.empty()) return Served::through;
    }
    if (fabric_->domain.caps().sends_into_sockets && submission.stalled.rests()) {
        blocked_.insert(route.destination);
        return Served::rests;
    }
    while (!submission.run.empty()) {
        const std::uint32_t count = std::min(submission.run.size(), room());
        if (count == 0) return Served::full;
        const std::uint32_t before = submission.run.begin;
        const auto result = post_chunks(submission, submission.run, count);
        if (submission.run.begin != before) {
            submission.stalled.reset();
            posted = true;
        }
        if (result == fabric::PostResult::again) return refused(submission, "took nothing");
        if (result == fabric::PostResult::failed) {
            const int error = sending_->last_error();
            RAILYARD_LOG(debug, name().c_str(), "post failed: %s", fi_strerror(error));
            const std::uint32_t first = submission.run.begin++;
            chunks_failed(submission, {first, first + 1}, fabric::classify_failure(false, error, 0));
            posted = true;
        }
    }
    return Served::rotate;
}

/// The peer does not take it now: it stays, until that has gone on for too long.
FabricRail::Served FabricRail::refused(Submission& submission, const char* what) noexcept {
    Path* const path = submission.route->path;
    const bool failed = path && path->failed();
    const std::uint64_t patience =
        failed ? std::min(failed_patience_ns, config_.give_up_after_ns) : config_.give_up_after_ns;
    if (!submission.stalled.refusal(patience, failed)) {
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
        row.bring_immediates(*work.immediate + run.begin);
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
    if (result != fabric::PostResult::ok) count_refused(result);
    const auto posted = static_cast<std::uint32_t>(chunk - begin);
    free_operations_ = operation;
    run.begin += posted;
    submission.outstanding += posted;
    posted_ += posted;
    posted_bytes_ += bytes;
    return result;
}

template <bool grouped>
void FabricRail::on_complete(fabric::OpContext& op, const fabric::Completion& completion) noexcept {
    Operation& operation = static_cast<Operation&>(op);
    FabricRail& rail = *operation.rail;
    rail.role_.assert_held();
    const std::uint32_t chunks = grouped ? operation.chunks : 1;
    rail.free_operation(operation, chunks);
    Submission& submission = *operation.submission;
    if (completion.status == Status::ok) [[likely]] {
        Work& work = *submission.lane->work;
        const auto kind = static_cast<std::size_t>(work.kind);
        rail.counters_.operations[kind] += chunks;
        rail.counters_.bytes[kind] += grouped ? operation.bytes() : operation.chunk->length;
        work.part_done(Status::ok, chunks);
    } else {
        rail.operation_failed(operation, completion);
    }
}

void FabricRail::use(std::unique_ptr<Operations> operations) noexcept {
    free_operations_ = nullptr;
    for (Operation& operation : *operations) {
        operation.handler = pieces_ > 1 ? on_complete<true> : on_complete<false>;
        operation.rail = this;
        operation.next = free_operations_;
        free_operations_ = &operation;
    }
    if (fabric_->operations.size() == kept_generations)
        fabric_->operations.erase(fabric_->operations.begin());
    fabric_->operations.push_back(std::move(operations));
}

}  // namespace railyard
