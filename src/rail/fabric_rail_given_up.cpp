// What is given up while the endpoint that it was sent from stays open (ADR 40): it may still land.
#include <atomic>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/log.h"
#include "rail/fabric_rail.h"

namespace railyard {

/// As many are set aside as may be, and perhaps none of them can ever be closed. What has been posted from
/// the present one cannot be interrupted then, nor may anything be carried out elsewhere that it has.
void FabricRail::keep_sender() noexcept {
    renewal_requested_.store(false, std::memory_order_relaxed);
    renewal_needed_ = false;
    release_returned(present_sender, false);
    if (stopped_until_ == 0) give_up_stopped();
}

/// What was found stopped the last time, and has not ended; what is so now is given up the next time.
void FabricRail::give_up_stopped() noexcept {
    stopped_until_ = 0;
    for (Operation& operation : *fabric_->operations.back()) {
        if (!operation.posted || operation.handler == on_given_up_complete) continue;
        if (operation.handler == on_stopped_complete) {
            take_from_posted(operation);
            posted_ += operation.chunks;  // it has its place until it ends
            give_up(operation, on_given_up_complete);
        } else if (operation.submission->lane->work->status() != Status::ok) {
            operation.handler = on_stopped_complete;
            stopped_until_ = now_ns() + longest_aside_ns;
        }
    }
}

void FabricRail::on_stopped_complete(fabric::OpContext& op, const fabric::Completion& completion) noexcept {
    op.handler = static_cast<Operation&>(op).rail->ordinary_handler();
    op.handler(op, completion);
}

/// Its transfer is told, and hears no more of it; who has the memory may ask whether it has ended.
void FabricRail::give_up(Operation& operation, fabric::OpContext::Handler handler) noexcept {
    Submission& submission = *operation.submission;
    keep(operation, Work::KeptAs::pinned);
    operation.handler = handler;
    submission.outstanding -= operation.chunks;
    counters_.count_error(Status::remote_disconnect);
    if (submission.route->path) note_failure(*submission.route->path);
    submission.lane->work->part_done(Status::remote_disconnect, operation.chunks);
}

/// Before its transfer hears that it is over. For ever, where there is no memory for another word of it.
void FabricRail::keep(Operation& operation, Work::KeptAs as) noexcept {
    const Submission& submission = *operation.submission;
    const Work& work = *submission.lane->work;
    std::atomic<std::uint32_t>* const late = as == Work::KeptAs::pinned ? submission.late : nullptr;
    if (late) late->fetch_add(1, std::memory_order_relaxed);
    std::unique_ptr<KeptMemory> memory;
    if (work.keeps_memory) memory = work.keeps_memory(work, chunks_of(operation), *submission.route, as);
    if (!late && !memory) return;
    operation.given_up.reset(new (std::nothrow) GivenUp(late, std::move(memory)));
    if (!operation.given_up) static_cast<void>(memory.release());
}

/// It was given up on the present sender, and took its place there until now. What has failed may still land
/// as long as that is open.
void FabricRail::on_given_up_complete(fabric::OpContext& op, const fabric::Completion& completion) noexcept {
    Operation& operation = static_cast<Operation&>(op);
    FabricRail& rail = *operation.rail;
    rail.role_.assert_held();
    if (completion.status != Status::ok && operation.given_up) {
        if (auto* const late = operation.given_up->take_late()) rail.keep_late({present_sender, late});
    }
    operation.given_up.reset();
    rail.posted_ -= operation.chunks;
    operation.handler = rail.ordinary_handler();
    operation.next = rail.free_operations_;
    rail.free_operations_ = &operation;
}

/// The same for one whose sender is the present one no more. False for one that has not been given up.
bool FabricRail::disown(Operation& operation) noexcept {
    if (operation.handler != on_given_up_complete) return false;
    posted_ -= operation.chunks;
    operation.handler = ignore_completion;
    return true;
}

void FabricRail::ignore_completion(fabric::OpContext& op, const fabric::Completion& completion) noexcept {
    const std::unique_ptr<GivenUp>& given_up = static_cast<Operation&>(op).given_up;
    if (!given_up) return;
    given_up->memory.reset();
    if (completion.status == Status::ok) given_up->end_late();  // else the device may go on with it
}

/// Nothing of them reaches memory any more.
void FabricRail::end_late(Operations& operations, bool closed) noexcept {
    for (Operation& operation : operations) {
        if (!operation.given_up) continue;
        operation.given_up->end_late();
        if (closed) operation.given_up.reset();
    }
}

/// The rail goes, and its operations may stay for long: who counts them may have gone when they end.
void FabricRail::stop_counting() noexcept {
    const auto stop = [](Operations& operations) {
        for (Operation& operation : operations) {
            if (operation.given_up) operation.given_up->take_late();
        }
    };
    for (const auto& operations : fabric_->operations)
        stop(*operations);
    for (const auto& aside : fabric_->aside)
        stop(*aside->operations);
}

void FabricRail::keep_late(Late late) noexcept {
    try {
        late_.push_back(late);
    } catch (const std::bad_alloc&) {
        // It counts for ever.
    }
}

void FabricRail::end_late_behind(std::uint32_t number) noexcept {
    std::erase_if(late_, [number](const Late& late) {
        if (late.first != number) return false;
        late.second->fetch_sub(1, std::memory_order_release);
        return true;
    });
}

/// Neither its operations nor what has waited for it to be closed are waited for any more.
void FabricRail::give_up_aside(Aside& aside) noexcept {
    std::string peer;
    for (std::size_t i = 0; i < aside.operations->size(); ++i) {
        Operation& operation = (*aside.operations)[i];
        if (!operation.posted || operation.handler == ignore_completion) continue;
        try {
            if (peer.empty()) peer = fabric_->addresses.text_of(aside.destinations[i]);
        } catch (const std::bad_alloc&) {
            peer.clear();  // it is left out
        }
        give_up(operation, ignore_completion);
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

/// What waited for that sender. Not closed: it ends, and what has failed may still land.
void FabricRail::release_returned(std::uint32_t number, bool closed) noexcept {
    if (closed) end_late_behind(number);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < returned_.size(); ++i) {
        Returned returned = returned_[i];
        if (returned.behind == number) {
            if (!closed) {
                if (std::atomic<std::uint32_t>* const late = returned.submission->late) {
                    late->fetch_add(1, std::memory_order_relaxed);
                    keep_late({number, late});
                }
                returned.submission->lane->work->part_done(Status::remote_disconnect);
                continue;
            }
            returned.behind = 0;
            returned.since = returned.waits_from = now_ns();
        }
        returned_[kept++] = returned;
    }
    returned_.resize(kept);
}

}  // namespace railyard
