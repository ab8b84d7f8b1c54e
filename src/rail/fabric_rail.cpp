#include "rail/fabric_rail.h"

#include <algorithm>
#include <new>

#include "common/clock.h"
#include "common/log.h"
#include "common/spoken.h"
#include "fabric/direct_access.h"
#include "fabric/sockets.h"
#include "rail/deferred_close.h"

namespace railyard {
namespace {

constexpr std::uint32_t rounds_between_event_reads = 4096;
constexpr std::uint32_t rounds_between_looks = 256;  // for new connections, while there may be some
/// Of an operation only its end is seen: a longer one over a slow link would look as if it had been lost
/// (peer_timeout_ms). Units of a flow over one rail are as long.
constexpr std::uint64_t longest_chunk = std::uint64_t{16} << 20;

constexpr std::size_t most_operations = 4096;

/// What is with the endpoints at most, besides operations.
std::size_t control_completions(const fabric::ProviderCaps& caps) {
    const std::size_t answers = AnswerChannel::send_slots + AnswerChannel::receive_slots;
    return ControlChannel::send_slots + ControlChannel::receive_slots +
           (caps.answers_at_sender ? answers : 0);
}

/// A queue that is overrun is of no more use. For flows, whose writes have it, and early notifications.
std::size_t unread_immediates(const fabric::ProviderCaps& caps) {
    return caps.tells_of_writes || caps.messages_tell ? Rail::most_unread_immediates : 0;
}

/// What is with the endpoints besides, and with those that are set aside.
std::size_t queue_beside_operations(const fabric::ProviderCaps& caps) {
    const std::size_t endpoints =
        1 + (caps.waits_to_close ? FabricRail::most_aside + FabricRail::most_given_up : 0);
    return endpoints * control_completions(caps) + unread_immediates(caps);
}

/// Of them, what the receiving endpoint has.
std::size_t arrivals(const fabric::ProviderCaps& caps) {
    return ControlChannel::receive_slots + unread_immediates(caps);
}

/// Operations that may be outstanding towards one peer: what the endpoint takes, less the control channel's
/// share.
std::size_t peer_credits(const fabric::ProviderCaps& caps) {
    const std::size_t depth = std::clamp<std::size_t>(caps.transmit_depth, 32, most_operations);
    return depth - std::min(ControlChannel::send_slots, depth / 2);
}

/// To all of them. Over sockets it takes so many for each, and a peer that does not look keeps them.
std::size_t credits(const fabric::ProviderCaps& caps) {
    const std::size_t one = peer_credits(caps);
    return caps.sends_into_sockets ? std::max(one, std::min(8 * one, most_operations)) : one;
}

/// Of them; a device with few has few for that.
std::uint32_t for_newcomers(std::size_t depth) {
    return static_cast<std::uint32_t>(std::min<std::size_t>(64, depth / 8));
}

/// With as many senders that are set aside in the middle of all that they may have. Devices limit it.
std::size_t queue_depth(const fabric::ProviderCaps& caps, std::size_t aside) {
    return (1 + aside) * credits(caps) + queue_beside_operations(caps);
}

fabric::CompletionQueues::Depths queue_depths(const fabric::ProviderCaps& caps) {
    const std::size_t all = queue_depth(caps, caps.waits_to_close ? FabricRail::most_aside : 0);
    return {.received = arrivals(caps), .sent = all - arrivals(caps), .least = queue_depth(caps, 0)};
}

}  // namespace

FabricRail::Opened::Opened(const std::shared_ptr<const fabric::Device>& device, const std::string& rail,
                           bool blocking)
    : domain(device, rail),
      queue(domain, queue_depths(device->caps), blocking),
      wait(domain, queue),
      addresses(domain),
      callers(domain.caps().separate_sender && domain.caps().own_vectors
                  ? std::make_unique<fabric::AddressVector>(domain)
                  : nullptr),
      endpoint(domain, queue.received(), callers ? *callers : addresses) {
    if (domain.caps().sends_into_sockets && !fabric::keep_alive(endpoint.name()))
        RAILYARD_LOG(debug, rail.c_str(), "no socket of it listens: idle connections are not kept alive");
    if (domain.caps().separate_sender) sender = new_sender();
}

std::unique_ptr<fabric::Endpoint> FabricRail::Opened::new_sender() {
    queue.open_sent();
    wait.watch_sent();
    return std::make_unique<fabric::Endpoint>(domain, queue.sent(), addresses, fabric::Endpoint::Duty::send);
}

FabricRail::FabricRail(std::string name, const std::shared_ptr<const fabric::Device>& device,
                       ControlSink& sink, FabricRailConfig config)
    : Rail(std::move(name)),
      config_(config),
      fabric_(std::make_shared<Opened>(device, this->name(), config.blocking)),
      depth_(credits(device->caps)),
      peer_depth_(peer_credits(device->caps)),
      kept_for_newcomers_(for_newcomers(depth_)),
      most_with_others_(fabric_->queue.depth() - queue_depth(device->caps, 0)),
      pieces_(std::min(device->caps.rma_pieces, fabric::RmaRow::most_pieces)),
      loopback_(device->caps.stays_on_host, fabric_->endpoint.name()) {
    RoleGuard guard(role_);
    fabric_->control =
        std::make_unique<ControlChannel>(fabric_->domain, fabric_->endpoint, sink, config.give_up_after_ns);
    control_ = fabric_->control.get();
    fabric_->queue.received().tell_of_immediates(&sink);
    sending_ = fabric_->sender ? fabric_->sender.get() : &fabric_->endpoint;
    control_->send_from(sending_);
    returned_.reserve(depth_ * pieces_);
    fabric_->operations.reserve(kept_generations);
    fabric_->old_sends.reserve(kept_generations);
    use(std::make_unique<Operations>(depth_));
    publish_sender();
    if (unnamed_) throw std::bad_alloc();
    if (device->caps.shares_endpoints) DeferredClose::opened(fabric_->endpoint.name());
    RAILYARD_LOG(info, this->name().c_str(), "opened %s device %s: %zu operations deep, %s%s",
                 spoken_provider(device->provider).c_str(), device->name.c_str(), depth_,
                 wait_fd() >= 0 ? "waitable" : "polled", reaches_gpu_memory() ? ", reaches GPU memory" : "");
}

FabricRail::~FabricRail() {
    RoleGuard guard(role_);
    control_->queue(outbox_.take_all());
    for (const auto& aside : fabric_->aside)
        control_->give_up(*aside->messages, Status::canceled);
    control_->cancel_all();
    stop_counting();
    if (fabric_->domain.caps().waits_to_close) {
        const std::size_t unread = most_unread();
        close_apart(std::move(fabric_), unread);
        return;
    }
    if (fabric_->domain.caps().reads_before_close) {
        // What their contexts stand for may have gone.
        fabric_->queue.drop(most_unread());
        fabric_->sender.reset();
        fabric_->queue.close_sent();
        fabric_->queue.drop(most_unread());
    }
    if (fabric_->domain.caps().shares_endpoints) DeferredClose::closed(fabric_->endpoint.name(), fabric_);
}

RegisteredMemory FabricRail::register_memory(const MemoryRange& range) {
    auto region = std::make_shared<fabric::MemoryRegion>(fabric_->domain, fabric_->endpoint, range);
    RegisteredMemory memory{region, region->descriptor(), region->key(), region->address_base()};
    if (range.owner) keep_memory(memory);
    return memory;
}

/// A thread may close the endpoints long after the rail has gone, and libfabric go on with what it has until
/// then.
void FabricRail::keep_memory(const RegisteredMemory& memory) noexcept {
    if (!fabric_->domain.caps().waits_to_close) return;
    fabric_->domain.keep_registered(std::static_pointer_cast<fabric::MemoryRegion>(memory.owner));
}

std::uint64_t FabricRail::max_chunk() const noexcept {
    return std::min<std::uint64_t>(fabric_->domain.caps().max_rma, longest_chunk);
}

PeerAddress FabricRail::do_insert_peer(std::string_view address) {
    const fabric::ProviderCaps& caps = fabric_->domain.caps();
    expect_connections();
    if (!caps.shares_endpoints) return fabric_->addresses.insert(address);
    const std::string& ours = fabric_->endpoint.name();
    const bool direct = fabric::lets_copy_directly(ours, std::string(address));
    const PeerAddress peer = fabric_->addresses.insert(address);
    if (caps.direct_rma && !indirect_ && !(direct && fabric::copies_directly(ours))) {
        RAILYARD_LOG(info, name().c_str(),
                     "the kernel does not let us write to a peer's memory: writes go by way of it");
        indirect_ = true;
        if (sending_) sending_->confirm_delivery();
    }
    return peer;
}

void FabricRail::do_remove_peer(PeerAddress peer) noexcept {
    control_->peer_removed(removals_.fetch_add(1, std::memory_order_acq_rel) + 1);
    if (!fabric_->addresses.remove(peer)) return;
    if (sending_) sending_->forget(peer);
    control_->forget(peer);
    for (const auto& aside : fabric_->aside)
        std::replace(aside->destinations.begin(), aside->destinations.end(), peer, no_address);
}

PeerAddress FabricRail::do_admit_sender(std::string_view address) {
    return fabric_->callers ? fabric_->callers->insert(address) : do_insert_peer(address);
}

void FabricRail::do_dismiss_sender(PeerAddress sender) noexcept {
    if (!fabric_->callers) return do_remove_peer(sender);
    fabric_->callers->remove(sender);
}

bool FabricRail::may_wait() noexcept {
    return (pending_.empty() || !asks_again_) && returned_.empty() &&
           !renewal_requested_.load(std::memory_order_relaxed) && !control_->asks_again() &&
           fabric_->wait.may_wait();
}

RailCounters FabricRail::do_count() const noexcept {
    RailCounters counters = counters_;
    counters.control = control_->counters();
    return counters;
}

bool FabricRail::read_events() noexcept {
    const bool worked = fabric_->domain.drain_events();
    if (loopback_.expects()) unpace_connections();
    return worked;
}

void FabricRail::expect_connections() noexcept {
    loopback_.expect(carried_bytes());
    if (loopback_.expects()) rounds_ = rounds_between_event_reads - rounds_between_looks;
}

void FabricRail::unpace_connections() noexcept {
    rounds_ = rounds_between_event_reads - rounds_between_looks;
    if (!loopback_.due(carried_bytes())) return;
    try {
        loopback_.look(fabric_->addresses.addresses(), carried_bytes());
    } catch (const std::exception& error) {
        RAILYARD_LOG(debug, name().c_str(), "connections stay as the kernel made them: %s", error.what());
    }
}

void FabricRail::publish_load() noexcept {
    load_.store(outstanding() + waiting_ + static_cast<std::uint32_t>(returned_.size()) +
                    control_->outstanding() + (control_->has_pending() ? 1 : 0),
                std::memory_order_relaxed);
    bytes_carried_.store(carried_bytes(), std::memory_order_relaxed);
    bytes_under_way_.store(outstanding_bytes(), std::memory_order_relaxed);
}

bool FabricRail::is_calm() const noexcept {
    return pending_.empty() && returned_.empty() && sending_ && !renewal_needed_ && !unsettled_ &&
           !renewal_requested_.load(std::memory_order_relaxed) && !fabric_->queue.broken() &&
           control_->is_calm();
}

bool FabricRail::post_at_once(Submission& submission) noexcept {
    Lane& lane = *submission.lane;
    const Route& route = *submission.route;
    if (!lane.is_single() || lane.striped || !submission.run.empty() || !is_calm()) return false;
    if (room_for(route.path) == 0 || !may_take(lane, route.path) || lane.work->status() != Status::ok)
        return false;
    if (route.has_failed()) return false;
    if (route.gated && !route.path->admits(sender_generation())) return false;
    submission.run = lane.take_alone();
    if (!submission.run.empty()) {
        const bool ended = lane.work->end_hand_over_early();
        if (post_chunks(submission, submission.run, 1) != fabric::PostResult::ok) {
            if (ended) lane.work->resume_hand_over();
            return false;
        }
        if (prompt_looks_.due()) {
            drain(false);
            prompt_looks_.looked(outstanding() == 0);
        }
        publish_load();
        if (ended) return true;
    }
    lane.work->part_done(Status::ok);
    return true;
}

/// One round's completions, or of what was sent alone, and a look at how fast they come where there is enough
/// under way to tell.
std::size_t FabricRail::drain(bool all) noexcept {
    const std::size_t ended =
        all ? fabric_->queue.drain(completions_per_round, outstanding() != 0 || control_->outstanding() != 0)
            : fabric_->queue.drain_sent(completions_per_round);
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
    if (reads_events) worked = read_events() || worked;
    publish_load();
    return worked;
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
        if (Path* const path = submission.route->path) path->count_ended(chunks);
        work.part_done(Status::ok, chunks);
    } else {
        rail.operation_failed(operation, completion);
    }
}

void FabricRail::publish_sender() noexcept {
    {
        const MutexLock lock(sender_mutex_);
        sender_.address.clear();
        sender_.generation = sender_generation_.load(std::memory_order_relaxed) + (renewals_++ ? 1 : 0);
        sender_generation_.store(sender_.generation, std::memory_order_release);
    }
    name_sender();
}

/// Until that is done nobody is introduced to it, as while it is being replaced.
void FabricRail::name_sender() noexcept {
    const fabric::Endpoint* const sender = fabric_->sender.get();
    try {
        std::string address = sender ? sender->name() : std::string();
        const MutexLock lock(sender_mutex_);
        sender_.address = std::move(address);
        unnamed_ = false;
    } catch (const std::exception&) {
        unnamed_ = true;  // another time
    }
    note_unsettled();
    if (unnamed_) return;
    if (config_.changes) config_.changes->fetch_add(1, std::memory_order_release);
}

Rail::Sender FabricRail::sender() const {
    const MutexLock lock(sender_mutex_);
    return sender_;
}

fabric::OpContext::Handler FabricRail::ordinary_handler() const noexcept {
    return pieces_ > 1 ? on_complete<true> : on_complete<false>;
}

void FabricRail::use(std::unique_ptr<Operations> operations) noexcept {
    free_operations_ = nullptr;
    for (Operation& operation : *operations) {
        operation.handler = ordinary_handler();
        operation.rail = this;
        operation.next = free_operations_;
        free_operations_ = &operation;
    }
    if (fabric_->operations.size() == kept_generations)
        fabric_->operations.erase(fabric_->operations.begin());
    fabric_->operations.push_back(std::move(operations));
}

}  // namespace railyard
