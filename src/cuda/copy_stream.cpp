#include "cuda/copy_stream.h"

#include "common/log.h"
#include "cuda/driver.h"

namespace railyard::cuda {

CopyStream::CopyStream(ContextPtr context, unsigned tickets)
    : context_(std::move(context)), tickets_(tickets) {
    const Driver& driver = context_->driver();
    const ContextGuard guard(*context_);
    guard.require();
    // Not ordered with the default stream, on which the program may have put anything.
    check(driver, driver.stream_create(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
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

CopyStream::Group::Group(CopyStream& stream, unsigned ticket) noexcept
    : stream_(stream), ticket_(stream.tickets_[ticket]), guard_(*stream.context_) {
    ticket_.busy = true;
    ticket_.failed = ticket_.recorded = false;
    if (!guard_.pushed()) stream_.fail(ticket_, "cuCtxPushCurrent", CUDA_ERROR_INVALID_CONTEXT);
}

void CopyStream::Group::add(const Copy& copy) noexcept {
    if (ticket_.failed || copy.length == 0) return;
    const CUresult result =
        stream_.context_->driver().memcpy_async(copy.to, copy.from, copy.length, stream_.stream_);
    if (result != CUDA_SUCCESS) stream_.fail(ticket_, "cuMemcpyAsync", result);
}

CopyStream::Group::~Group() {
    if (!guard_.pushed()) return;
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
