// Senders that can only be closed when all that they have sent has ended (ADR 40): others take over at once.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "rail/fabric_rail.h"

namespace railyard {
namespace {

/// For which rails that go one after the other wait together, and each of them at least.
constexpr std::uint64_t last_wait_ns = 1'000'000'000, shortest_wait_ns = 10'000'000;
constexpr std::uint64_t between_two_ns = 50'000'000;

/// What has failed at one peer fails for all that was sent to it before, give or take that.
constexpr std::uint64_t settled_ns = 1'500'000'000, between_looks_ns = 100'000'000;
/// Where as many are set aside as may be.
constexpr std::uint64_t between_tries_ns = 10'000'000;
/// Between attempts to have another sender: after some seconds of them the one that there is is closed first.
constexpr std::uint64_t hopeless_pause_ns = 3'000'000'000;
/// The same where there is none at all.
constexpr std::uint64_t without_sender_ns = 800'000'000;

std::atomic<std::uint64_t> last_wait_begun{0}, last_wait_over{0};  // ns

/// For how long the one that goes now is waited for; ns.
std::uint64_t last_wait() noexcept {
    const std::uint64_t now = now_ns();
    if (now - last_wait_over.load(std::memory_order_relaxed) > between_two_ns)
        last_wait_begun.store(now, std::memory_order_relaxed);
    const std::uint64_t waited = now - last_wait_begun.load(std::memory_order_relaxed);
    return std::max(last_wait_ns - std::min(waited, last_wait_ns), shortest_wait_ns);
}

}  // namespace

FabricRail::Aside* FabricRail::aside_of(const Operation& operation) noexcept {
    for (const auto& aside : fabric_->aside) {
        const Operations& all = *aside->operations;
        if (&operation >= all.data() && &operation < all.data() + all.size()) return aside.get();
    }
    return nullptr;
}

/// Where the provider waits before it closes. Not for ever, where there is no memory for another sender.
bool FabricRail::may_set_aside() noexcept {
    return fabric_->domain.caps().waits_to_close && !fabric_->queue.broken() &&
           (outstanding() != 0 || control_->with_sender() != 0) && reopen_pause_ns_ < hopeless_pause_ns;
}

/// What is under way stays with its transfers until it has ended there, and what waits for the sender to be
/// closed goes on waiting. Another one takes over.
void FabricRail::set_aside() noexcept {
    std::size_t given_up = 0, with_provider = outstanding();
    for (const auto& aside : fabric_->aside) {
        given_up += aside->given_up ? 1 : 0;
        for (const Operation& operation : *aside->operations)
            with_provider += operation.posted != 0 ? 1 : 0;
    }
    const std::size_t waiting = fabric_->aside.size() - given_up;
    if (waiting == 0 && (given_up >= most_given_up || with_provider > most_aside * depth_)) {
        renewal_requested_.store(false, std::memory_order_relaxed);
        renewal_needed_ = false;  // it could wait for ever
        return hand_over_returned(0);
    }
    if (waiting >= most_aside || given_up >= most_given_up || with_provider > most_aside * depth_) {
        reopen_at_ = now_ns() + between_tries_ns;
        return;
    }
    std::unique_ptr<Operations> operations;
    std::unique_ptr<Aside> aside;
    try {
        operations = std::make_unique<Operations>(depth_);
        aside = std::make_unique<Aside>();
        fabric_->aside.reserve(fabric_->aside.size() + 1);
        returned_.reserve((fabric_->aside.size() + 2) * depth_ * pieces_);
        std::optional<fabric::AddressVector::Another> addresses;
        if (fabric_->callers) addresses = fabric_->addresses.another();
        aside->messages = control_->set_aside();  // last: it has no way back
        if (addresses) aside->addresses = fabric_->addresses.use(*std::move(addresses));
    } catch (const std::exception& error) {
        return put_renewal_off(error);  // nothing has been done
    }
    renewal_needed_ = false;
    renewal_requested_.store(false, std::memory_order_relaxed);
    aside->number = ++asides_;
    aside->until = now_ns() + longest_aside_ns;
    for (Operation& operation : *fabric_->operations.back()) {
        if (!operation.posted) continue;
        operation.handler = on_aside_complete;
        take_from_posted(operation);
        aside->unended += operation.chunks;
    }
    waiting_ += aside->unended;
    hand_over_returned(aside->number);
    aside->operations = std::move(fabric_->operations.back());
    fabric_->operations.pop_back();
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
    rail.posted_ += chunks;  // as if it had been counted all the while
    rail.posted_bytes_ += operation.bytes();
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
    rail.counters_.bytes[kind] += operation.bytes();
    work.part_done(Status::ok, chunks);
}

/// Closes those that the provider would not wait for, and gives up those of which not all has ended for too
/// long.
void FabricRail::settle_aside() noexcept {
    std::size_t place = 0;
    while (place < fabric_->aside.size()) {
        Aside& aside = *fabric_->aside[place];
        if (fabric_->queue.broken() || nothing_leaves() || waits_for_nothing(aside)) {
            close_aside(place);
            continue;
        }
        ++place;
        if (!aside.given_up && now_ns() >= aside.until) give_up_aside(aside);
    }
}

/// There is no other sender, as where the device has gone: nobody is heard of, and nothing else stands still
/// while one is closed.
bool FabricRail::nothing_leaves() const noexcept {
    return !sending_ && reopen_pause_ns_ >= without_sender_ns;
}

/// All has ended; or the device is through with everybody whom there is something for, and has been for a
/// while where that is only known from failures: what is missing is an answer of theirs, and libfabric does
/// not wait for those when it closes.
bool FabricRail::waits_for_nothing(Aside& aside) const noexcept {
    const auto is_posted = [](const Operation& operation) { return operation.posted != 0; };
    if (aside.unended == 0 && aside.messages->unended() == 0)
        return !aside.given_up || std::none_of(aside.operations->begin(), aside.operations->end(), is_posted);
    const std::uint64_t now = now_ns();
    if (aside.given_up || (!aside.messages->has_news() && now < aside.next_look)) return false;
    aside.next_look = now + between_looks_ns;
    const auto is_heard_of = [&](const Operation& operation) {
        return !operation.posted || aside.messages->has_heard_of(operation.submission->route->destination);
    };
    if (!aside.messages->has_heard_of_all() ||
        !std::all_of(aside.operations->begin(), aside.operations->end(), is_heard_of))
        return false;
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
    control_->take_back(*aside.messages);
    if (aside.unended != 0) {
        RAILYARD_LOG(warn, name().c_str(),
                     "a sender is closed with %u operations that have not been answered: carried out again "
                     "unless their transfers have ended",
                     aside.unended);
        for (Operation& operation : *aside.operations) {
            if (!operation.posted) continue;
            operation.handler = [](fabric::OpContext&, const fabric::Completion&) noexcept {};
            operation.submission->outstanding -= operation.chunks;
            give_back(*operation.submission, chunks_of(operation));
        }
        waiting_ -= std::exchange(aside.unended, 0);
    }
    release_returned(aside.number, true);
    auto& operations = fabric_->operations;
    if (operations.size() == kept_generations) operations.erase(operations.begin());
    operations.insert(operations.end() - 1, std::move(aside.operations));  // the last are the present ones
    auto& sends = fabric_->old_sends;
    if (sends.size() == kept_generations) sends.erase(sends.begin());
    sends.push_back(aside.messages->remains());
    fabric_->aside.erase(fabric_->aside.begin() + static_cast<std::ptrdiff_t>(place));
    note_unsettled();
}

/// Neither its operations nor what has waited for it to be closed are waited for any more.
void FabricRail::give_up_aside(Aside& aside) noexcept {
    std::string peer;
    for (Operation& operation : *aside.operations) {
        if (!operation.posted) continue;
        Submission& submission = *operation.submission;
        operation.handler = [](fabric::OpContext&, const fabric::Completion&) noexcept {};
        submission.outstanding -= operation.chunks;
        counters_.count_error(Status::remote_disconnect);
        try {
            if (peer.empty()) peer = fabric_->addresses.text_of(submission.route->destination);
        } catch (const std::bad_alloc&) {
            peer.clear();  // it is left out
        }
        if (submission.route->path) note_failure(*submission.route->path);
        submission.lane->work->part_done(Status::remote_disconnect, operation.chunks);
    }
    RAILYARD_LOG(
        warn, name().c_str(),
        "%u operations and %zu messages are given up, to %s among others: the provider has not ended "
        "them in %llu s, and waits for them before it closes their endpoint, which stays open",
        aside.unended, aside.messages->unended(), peer.empty() ? "a peer" : peer.c_str(),
        static_cast<unsigned long long>(longest_aside_ns / 1'000'000'000));
    waiting_ -= std::exchange(aside.unended, 0);
    aside.given_up = true;
    control_->give_up(*aside.messages, Status::remote_disconnect);
    release_returned(aside.number, false);
}

/// What waited for that sender. Not closed: it ends.
void FabricRail::release_returned(std::uint32_t number, bool closed) noexcept {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < returned_.size(); ++i) {
        Returned returned = returned_[i];
        if (returned.behind == number) {
            if (!closed) {
                returned.submission->lane->work->part_done(Status::remote_disconnect);
                continue;
            }
            returned.behind = 0;
            returned.since = now_ns();
        }
        returned_[kept++] = returned;
    }
    returned_.resize(kept);
}

/// What has waited for the sender that there was.
void FabricRail::hand_over_returned(std::uint32_t number) noexcept {
    for (Returned& returned : returned_) {
        if (returned.behind == present_sender) returned.behind = number;
    }
}

/// In a thread of its own, as the provider may wait for ever.
void FabricRail::close_apart(std::shared_ptr<Opened> fabric, std::size_t most_unread) noexcept {
    const auto close = [most_unread](std::shared_ptr<Opened> all) {
        all->queue.drop(most_unread);
        for (auto& aside : all->aside)
            aside->endpoint.reset();
        all->sender.reset();
        all->queue.drop(most_unread);
    };
    try {
        // Not a promise: one that is broken takes memory, and there may be none.
        const auto closed = std::make_shared<std::atomic<bool>>(false);
        const std::string rail = fabric->domain.rail();
        std::thread closing([close, fabric, closed]() mutable {
            close(std::move(fabric));
            closed->store(true, std::memory_order_release);
        });
        fabric.reset();
        const std::uint64_t end = now_ns() + last_wait();
        while (!closed->load(std::memory_order_acquire) && now_ns() < end)
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        last_wait_over.store(now_ns(), std::memory_order_relaxed);
        if (closed->load(std::memory_order_acquire)) return closing.join();
        closing.detach();
        RAILYARD_LOG(warn, rail.c_str(), "its endpoints are still being closed: not all has ended there");
    } catch (const std::exception&) {
        if (fabric) close(std::move(fabric));  // there was no thread
    }
}

}  // namespace railyard
