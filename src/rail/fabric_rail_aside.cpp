// Senders that can only be closed when all that they have sent has ended (ADR 40): others take over at once.
#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "rail/fabric_rail.h"

namespace railyard {
namespace {

/// What has failed at one peer fails for all that was sent to it before, give or take that.
constexpr std::uint64_t settled_ns = 1'500'000'000, between_looks_ns = 100'000'000;
/// Where as many are set aside as may be.
constexpr std::uint64_t between_tries_ns = 10'000'000;
/// Between attempts to have another sender: after some seconds of them the one that there is is closed first.
constexpr std::uint64_t hopeless_pause_ns = 3'000'000'000;
/// The same where there is none at all.
constexpr std::uint64_t without_sender_ns = 800'000'000;

}  // namespace

FabricRail::Aside* FabricRail::aside_of(const Operation& operation) noexcept {
    for (const auto& aside : fabric_->aside) {
        const Operations& all = *aside->operations;
        if (&operation >= all.data() && &operation < all.data() + all.size()) return aside.get();
    }
    return nullptr;
}

void FabricRail::note_unsettled() noexcept {
    unsettled_ = unnamed_ || !fabric_->aside.empty();
}

/// Where the provider waits before it closes. Not for ever, where there is no memory for another sender; on a
/// broken queue nobody would hear that all has ended.
bool FabricRail::may_set_aside() noexcept {
    if (!fabric_->domain.caps().waits_to_close) return false;
    if (fabric_->queue.broken()) return true;
    if (fabric_->aside.empty() && outstanding() > most_with_others_) return false;
    return (outstanding() != 0 || control_->with_sender() != 0) && reopen_pause_ns_ < hopeless_pause_ns;
}

/// None where the device has gone: there is no sender for them either.
std::optional<fabric::AddressVector::Another> FabricRail::addresses_for_another() {
    try {
        return fabric_->addresses.another();
    } catch (const fabric::DeviceGone&) {
        return std::nullopt;
    }
}

/// What is under way stays with its transfers until it has ended there, and what waits for the sender to be
/// closed goes on waiting. Another one takes over.
void FabricRail::set_aside() noexcept {
    std::size_t given_up = 0, with_provider = outstanding();
    for (const auto& aside : fabric_->aside) {
        given_up += aside->given_up ? 1 : 0;
        with_provider += posted_of(*aside->operations);
    }
    const std::size_t waiting = fabric_->aside.size() - given_up;
    const bool broken = fabric_->queue.broken();
    const bool full = given_up >= most_given_up || with_provider > most_with_others_;
    if (!broken && waiting == 0 && full) return keep_sender();
    if (!broken && (waiting >= most_aside || full)) {
        reopen_at_ = now_ns() + between_tries_ns;
        return;
    }
    std::unique_ptr<Operations> operations;
    std::unique_ptr<Aside> aside;
    try {
        operations = std::make_unique<Operations>(depth_);
        aside = std::make_unique<Aside>();
        aside->destinations.assign(depth_, no_address);
        fabric_->aside.reserve(fabric_->aside.size() + 1);
        returned_.reserve((fabric_->aside.size() + 2) * depth_ * pieces_);
        std::optional<fabric::AddressVector::Another> addresses;
        if (fabric_->callers && !broken) addresses = addresses_for_another();
        aside->messages = control_->set_aside(depth_, !broken);  // last: it has no way back
        if (addresses) aside->addresses = fabric_->addresses.use(*std::move(addresses));
    } catch (const std::exception& error) {
        return put_renewal_off(error);  // nothing has been done
    }
    renewal_needed_ = false;
    renewal_requested_.store(false, std::memory_order_relaxed);
    aside->number = ++asides_;
    aside->until = now_ns() + longest_aside_ns;
    stopped_until_ = 0;
    hand_over_operations(*aside);
    hand_over_returned(aside->number);
    aside->endpoint = std::move(fabric_->sender);
    sending_ = nullptr;
    RAILYARD_LOG(info, name().c_str(), "a sender is closed when %u operations and %zu messages have ended",
                 aside->unended, aside->messages->unended());
    fabric_->aside.push_back(std::move(aside));
    use(std::move(operations));
    try {
        start_sender();
    } catch (const std::exception& error) {
        put_renewal_off(error);
    }
    publish_sender();
}

void FabricRail::hand_over_operations(Aside& aside) noexcept {
    aside.operations = std::move(fabric_->operations.back());
    fabric_->operations.pop_back();
    for (std::size_t i = 0; i < aside.operations->size(); ++i) {
        Operation& operation = (*aside.operations)[i];
        if (!operation.posted || disown(operation)) continue;
        operation.handler = on_aside_complete;
        take_from_posted(operation);
        aside.unended += operation.chunks;
        aside.destinations[i] = operation.submission->route->destination;
        aside.messages->await(aside.destinations[i]);
    }
    waiting_ += aside.unended;
}

void FabricRail::on_aside_complete(fabric::OpContext& op, const fabric::Completion& completion) noexcept {
    Operation& operation = static_cast<Operation&>(op);
    FabricRail& rail = *operation.rail;
    rail.role_.assert_held();
    Aside& aside = *rail.aside_of(operation);
    const std::uint32_t chunks = operation.chunks;
    Submission& submission = *operation.submission;
    aside.unended -= chunks;
    rail.waiting_ -= chunks;
    if (completion.status != Status::ok && aside.number == rail.closed_aside_) {  // only interrupted
        submission.outstanding -= chunks;
        return rail.give_back(submission, chunks_of(operation));
    }
    const std::uint64_t bytes = operation.bytes();
    Path* const path = submission.route->path;
    rail.posted_ += chunks;  // as if it had been counted all the while
    rail.posted_bytes_ += bytes;
    if (path) path->count_posted(chunks);
    submission.outstanding -= chunks;
    if (completion.status != Status::ok) {
        const bool closing = std::exchange(rail.closing_, false);  // that is another sender
        rail.failing_ = aside.number;
        rail.operation_failed(operation, completion);
        rail.failing_ = present_sender;
        rail.closing_ = closing;
        return;
    }
    Work& work = *submission.lane->work;
    const auto kind = static_cast<std::size_t>(work.kind);
    rail.counters_.operations[kind] += chunks;
    rail.counters_.bytes[kind] += bytes;
    if (path) path->count_ended(chunks);
    work.part_done(Status::ok, chunks);
}

/// Closes those that the provider would not wait for, and gives up those of which not all has ended for too
/// long. None where nobody would hear of an end: the provider could wait for ever.
void FabricRail::settle_aside() noexcept {
    const std::uint64_t now = now_ns();
    const bool none_to_come = no_sender_to_come();
    const bool flushed = fabric_->queue.flushed() != flushed_by_us_;
    const bool gone = fabric_->queue.device_gone() || (none_to_come && flushed);
    const bool unheard = gone || none_to_come || fabric_->queue.broken();
    if (stopped_until_ != 0 && now >= stopped_until_) give_up_stopped();
    std::size_t place = 0;
    while (place < fabric_->aside.size()) {
        Aside& aside = *fabric_->aside[place];
        if (!unheard && waits_for_nothing(aside)) {
            close_aside(place);
            continue;
        }
        ++place;
        if (aside.given_up) continue;
        if (gone) {
            take_back(aside, false);  // nothing of it leaves any more
            aside.given_up = true;
        } else if (unheard || now >= aside.until) {
            give_up_aside(aside);
        }
    }
}

/// New ones are refused, as there is no device. What the open ones have may still leave, unless the device
/// has taken them away, too.
bool FabricRail::no_sender_to_come() const noexcept {
    return !sending_ && reopen_without_device_ && reopen_pause_ns_ >= without_sender_ns;
}

/// All has ended; or the device is through with everybody whom there is something for, and has been for a
/// while where that is only known from failures: what is missing is an answer of theirs, and libfabric does
/// not wait for those when it closes.
bool FabricRail::waits_for_nothing(Aside& aside) const noexcept {
    const auto is_posted = [](const Operation& operation) { return operation.posted != 0; };
    const std::uint64_t now = now_ns();
    const bool looks = aside.messages->has_news() || now >= aside.next_look;
    if (aside.given_up && !looks) return false;
    if (aside.unended == 0 && aside.messages->unended() == 0 &&
        std::none_of(aside.operations->begin(), aside.operations->end(), is_posted))
        return true;
    if (!looks) return false;
    aside.next_look = now + between_looks_ns;
    if (!aside.messages->has_heard_of_all()) return false;
    for (std::size_t i = 0; i < aside.destinations.size(); ++i) {
        if ((*aside.operations)[i].posted && !aside.messages->has_heard_of(aside.destinations[i]))
            return false;
    }
    if (aside.messages->is_certain()) return true;
    if (aside.heard_at == 0) aside.heard_at = now;
    return now - aside.heard_at >= settled_ns;
}

/// What has not ended goes out again.
void FabricRail::close_aside(std::size_t place) noexcept {
    Aside& aside = *fabric_->aside[place];
    drain_all();  // see ProviderCaps::reads_before_close
    closed_aside_ = aside.number;
    aside.messages->close();
    aside.endpoint.reset();
    drain_all();  // what had ended before counts
    closed_aside_ = 0;
    flushed_by_us_ = fabric_->queue.flushed();
    take_back(aside, true);
    auto& operations = fabric_->operations;
    if (operations.size() == kept_generations) operations.erase(operations.begin());
    operations.insert(operations.end() - 1, std::move(aside.operations));  // the last are the present ones
    auto& sends = fabric_->old_sends;
    if (sends.size() == kept_generations) sends.erase(sends.begin());
    sends.push_back(aside.messages->remains());
    fabric_->aside.erase(fabric_->aside.begin() + static_cast<std::ptrdiff_t>(place));
    renewal_needed_ = renewal_needed_ || stopped_until_ != 0;  // keep_sender: there is room now
    note_unsettled();
}

/// Nothing that it has can come to anything any more: what has not ended goes out again, as does what has
/// waited for that. Not closed: libfabric may still look at it.
void FabricRail::take_back(Aside& aside, bool closed) noexcept {
    control_->take_back(*aside.messages);
    end_late(*aside.operations, closed);
    if (aside.unended != 0) {
        RAILYARD_LOG(warn, name().c_str(),
                     "a sender is closed with %u operations that have not been answered: carried out again "
                     "unless their transfers have ended",
                     aside.unended);
        for (Operation& operation : *aside.operations) {
            if (!operation.posted || operation.handler == ignore_completion) continue;
            operation.handler = ignore_completion;
            if (!closed) keep(operation, Work::KeptAs::with_rail);
            operation.submission->outstanding -= operation.chunks;
            give_back(*operation.submission, chunks_of(operation));
        }
        waiting_ -= std::exchange(aside.unended, 0);
    }
    release_returned(aside.number, true);
}

/// What has waited for the sender that there was. 0: it is closed.
void FabricRail::hand_over_returned(std::uint32_t number) noexcept {
    for (Returned& returned : returned_) {
        if (returned.behind == present_sender) returned.behind = number;
    }
    for (auto& [behind, count] : late_) {
        if (behind == present_sender) behind = number;
    }
    end_late_behind(0);  // there is none that it waits for any more
}

}  // namespace railyard
