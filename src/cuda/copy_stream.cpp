#include "cuda/copy_stream.h"

#include <algorithm>
#include <utility>

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
    ticket_.failed = ticket_.recorded = false;
    if (!guard_.pushed()) stream_.fail(ticket_, "cuCtxPushCurrent", CUDA_ERROR_INVALID_CONTEXT);
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
    const Driver& driver = stream_.context_->driver();
    const CUresult result = driver.event_record(ticket_.event, stream_.stream_);
    ticket_.recorded = result == CUDA_SUCCESS;
    if (ticket_.recorded) return;
    stream_.fail(ticket_, "cuEventRecord", result);
    driver.stream_synchronize(stream_.stream_);  // no other way to learn when what is under way has ended
}

Status CopyStream::poll(unsigned index) noexcept {
    Ticket& ticket = tickets_[index];
    if (!ticket.busy) return Status::not_posted;
    if (ticket.recorded) {
        const Driver& driver = context_->driver();
        const ContextGuard guard(*context_);
        const CUresult result = driver.event_query(ticket.event);
        if (result == CUDA_ERROR_NOT_READY) return Status::in_progress;
        if (result != CUDA_SUCCESS) fail(ticket, "cuEventQuery", result);
    }
    ticket.busy = false;
    return ticket.failed ? Status::backend : Status::ok;
}

std::string CopyStream::last_error() const {
    const MutexLock lock(mutex_);
    if (!failed_call_) return {};
    return std::string(failed_call_) + ": " +
           describe(context_->driver(), static_cast<CUresult>(failed_result_));
}

}  // namespace railyard::cuda
