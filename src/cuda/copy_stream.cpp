#include "cuda/copy_stream.h"

#include <algorithm>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "cuda/copy_kernel.h"
#include "cuda/driver.h"
#include "cuda/own_stream.h"

namespace railyard::cuda {

namespace {

/// Longer ones are faster by the copy engines, for all that a call costs.
constexpr std::uint64_t most_bytes_between_gpus = 256 << 10, most_bytes_pinned = 32 << 10;
/// Fewer cost no more one by one.
constexpr unsigned least_pieces = 4;

std::uint64_t most_bytes(Reach reach) noexcept {
    switch (reach) {
        case Reach::unknown:
            break;
        case Reach::gpus:
            return most_bytes_between_gpus;
        case Reach::pinned:
            return most_bytes_pinned;
    }
    return 0;
}

}  // namespace

CopyStream::CopyStream(ContextPtr context, unsigned tickets, std::shared_ptr<const CopyKernel> kernel)
    : context_(std::move(context)), kernel_(std::move(kernel)), tickets_(tickets) {
    const Driver& driver = context_->driver();
    const ContextGuard guard(*context_);
    guard.require();
    stream_ = make_own_stream(driver);
    try {
        for (Ticket& ticket : tickets_)
            check(driver, driver.event_create(&ticket.event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    } catch (...) {
        destroy();
        throw;
    }
}

CopyStream::~CopyStream() {
    const ContextGuard guard(*context_);
    context_->driver().stream_synchronize(stream_);
    destroy();
}

void CopyStream::destroy() noexcept {
    const Driver& driver = context_->driver();
    for (const Ticket& ticket : tickets_) {
        if (ticket.event) driver.event_destroy(ticket.event);
    }
    driver.stream_destroy(stream_);
}

void CopyStream::fail(Ticket& ticket, const char* call, unsigned result) noexcept {
    ticket.failed = true;
    {
        const MutexLock lock(mutex_);
        failed_call_ = call;
        failed_result_ = result;
    }
    RAILYARD_LOG(error, "cuda", "copies on device %d: %s: %s", context_->ordinal(), call,
                 error_name(context_->driver(), result));
}

CopyStream::Group::Group(CopyStream& stream, unsigned ticket, Reach reach) noexcept
    : stream_(stream),
      ticket_(stream.tickets_[ticket]),
      guard_(*stream.context_),
      kept_up_to_(stream.kernel_ && stream.context_->kernels_reach_all() ? most_bytes(reach) : 0) {
    ticket_.busy = true;
    ticket_.failed = ticket_.recorded = ticket_.left = false;
    ticket_.started = guard_.pushed();
    if (!guard_.pushed()) stream_.fail(ticket_, "cuCtxPushCurrent", guard_.result());
}

void CopyStream::Group::add(const Copy& copy) noexcept {
    if (copy.length == 0) return;
    if (copy.length > kept_up_to_) return start(copy);
    kept_.to[kept_count_] = copy.to;
    kept_.from[kept_count_] = copy.from;
    kept_.length[kept_count_] = static_cast<std::uint32_t>(copy.length);
    longest_kept_ = std::max(longest_kept_, kept_.length[kept_count_]);
    if (++kept_count_ == pieces_per_launch) start_kept();
}

void CopyStream::Group::start_kept() noexcept {
    const unsigned count = std::exchange(kept_count_, 0);
    const std::uint32_t longest = std::exchange(longest_kept_, 0);
    if (ticket_.failed) return;
    if (count >= least_pieces && stream_.kernel_->launch(kept_, count, longest, stream_.stream_)) return;
    for (unsigned i = 0; i < count; ++i)
        start({kept_.to[i], kept_.from[i], kept_.length[i]});
}

void CopyStream::Group::start(const Copy& copy) noexcept {
    if (ticket_.failed) return;
    const CUresult result =
        stream_.context_->driver().memcpy_async(copy.to, copy.from, copy.length, stream_.stream_);
    if (result != CUDA_SUCCESS) stream_.fail(ticket_, "cuMemcpyAsync", result);
}

CopyStream::Group::~Group() {
    if (!guard_.pushed()) return;
    start_kept();
    const CUresult result = stream_.context_->driver().event_record(ticket_.event, stream_.stream_);
    ticket_.recorded = result == CUDA_SUCCESS;
    if (ticket_.recorded) {
        stream_.unanswered_since_ns_.store(0, std::memory_order_relaxed);
    } else {
        stream_.fail(ticket_, "cuEventRecord", result);
    }
}

CopyStream::Answer CopyStream::ask(Ticket& ticket) noexcept {
    const Driver& driver = context_->driver();
    const ContextGuard guard(*context_);
    Answer answer{Answer::Is::unknown, "cuCtxPushCurrent", guard.result()};
    if (guard.pushed() && !ticket.recorded) {
        answer = {Answer::Is::unknown, "cuEventRecord", driver.event_record(ticket.event, stream_)};
        ticket.recorded = answer.result == CUDA_SUCCESS;
    }
    if (guard.pushed() && ticket.recorded)
        answer = {Answer::Is::unknown, "cuEventQuery", driver.event_query(ticket.event)};
    if (answer.result == CUDA_SUCCESS || ends_context(answer.result)) answer.is = Answer::Is::over;
    if (answer.result == CUDA_ERROR_NOT_READY) answer.is = Answer::Is::under_way;
    return answer;
}

/// An error is no word of the end: the memory would be the program's again, and the copies would still reach
/// it.
bool CopyStream::may_be_under_way(Ticket& ticket) noexcept {
    const Answer answer = ask(ticket);
    if (answer.result == CUDA_SUCCESS || answer.is == Answer::Is::under_way) {
        unanswered_since_ns_.store(0, std::memory_order_relaxed);
        return answer.is == Answer::Is::under_way;
    }
    if (!ticket.failed) fail(ticket, answer.call, answer.result);
    if (answer.is == Answer::Is::over) return false;
    const std::uint64_t now = now_ns();
    std::uint64_t since = 0;
    if (unanswered_since_ns_.compare_exchange_strong(since, now, std::memory_order_relaxed)) return true;
    if (now < since + unanswered_limit_ns) return true;
    RAILYARD_LOG(error, "cuda",
                 "copies on device %d are given up: nobody can tell whether they have ended: %s: %s",
                 context_->ordinal(), answer.call, error_name(context_->driver(), answer.result));
    ticket.left = true;
    return false;
}

Status CopyStream::poll(unsigned index) noexcept {
    Ticket& ticket = tickets_[index];
    if (!ticket.busy) return Status::not_posted;
    if (ticket.started && may_be_under_way(ticket)) return Status::in_progress;
    ticket.busy = false;
    return ticket.failed ? Status::backend : Status::ok;
}

bool CopyStream::has_left(unsigned index) noexcept {
    Ticket& ticket = tickets_[index];
    if (ticket.left) ticket.left = ask(ticket).is != Answer::Is::over;
    return ticket.left;
}

std::string CopyStream::last_error() const {
    const MutexLock lock(mutex_);
    if (!failed_call_) return {};
    return std::string(failed_call_) + ": " +
           describe(context_->driver(), static_cast<CUresult>(failed_result_));
}

}  // namespace railyard::cuda
