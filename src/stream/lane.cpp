#include "stream/lane.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "common/clock.h"
#include "common/log.h"
#include "cuda/driver.h"
#include "engine/transfer.h"
#include "manager/gpus.h"

namespace railyard {
namespace {

/// Above every number, and by less than half of the range: streams compare cyclically.
constexpr std::uint64_t all_done = INT64_MAX;

pid_t this_thread_id() noexcept {
    return static_cast<pid_t>(syscall(SYS_gettid));
}

}  // namespace

HeldTransfer::HeldTransfer(std::shared_ptr<StreamLane> lane, Transfer& transfer, bool waits)
    : lane_(std::move(lane)), transfer_(transfer), waits_(waits) {
    lane_->users.fetch_add(1, std::memory_order_relaxed);
}

Status HeldTransfer::hold(Transfer&) noexcept {
    return lane_->post(*this);
}

void HeldTransfer::data_ended(Transfer&, Status) noexcept {
    lane_->ended(*this);
}

void HeldTransfer::stopped(Transfer&) noexcept {
    lane_->stopped();
}

void HeldTransfer::gone(Transfer&) noexcept {
    lane_->users.fetch_sub(1, std::memory_order_acq_rel);
    delete this;
}

void StartList::append(HeldTransfer& held) noexcept {
    held.next_start_ = nullptr;
    (last ? last->next_start_ : first) = &held;
    last = &held;
}

StreamLane::StreamLane(const cuda::Driver& driver, const StreamPlace& place, LaneMemory& memory,
                       ArmedCount& armed)
    : driver_(driver), place_(place), memory_(memory), armed_(armed), cell_(memory.take()) {
    try {
        const cuda::ContextGuard guard(driver, place_.context);
        guard.require();
        cuda::check(driver, driver.event_create(&event_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    } catch (...) {
        memory_.give_back(cell_);
        throw;
    }
}

Status StreamLane::refuse(const char* call, unsigned result) const noexcept {
    RAILYARD_LOG(error, "stream", "post on stream %p of GPU %d: %s: %s", static_cast<void*>(place_.handle),
                 place_.gpu->ordinal(), call, cuda::error_name(driver_, result));
    return Status::backend;
}

Status StreamLane::refuse_capture() const noexcept {
    RAILYARD_LOG(
        error, "stream",
        "post on stream %p refused: it is being captured, and a graph would run the transfer at its first "
        "launch only; end the capture before the post, or post on another stream",
        static_cast<void*>(place_.handle));
    return Status::not_supported;
}

/// The handle is of another stream in each thread. What has been put on one writes its number when it is come
/// to, over a later one if that came first; and one event stands behind what is on one stream.
Status StreamLane::take_over() noexcept {
    const pid_t me = this_thread_id();
    if (poster_ != 0 && poster_ != me) {
        std::uint64_t issued = 0;
        {
            const MutexLock lock(queue_mutex_);
            issued = issued_;
        }
        if (!event_behind_ || cell_.words->trigger.load(std::memory_order_acquire) < issued) {
            RAILYARD_LOG(error, "stream",
                         "post on the per-thread default stream of GPU %d refused: that of thread %d has not "
                         "come to what the request put on it before; post from that thread, or prepare "
                         "another request",
                         place_.gpu->ordinal(), static_cast<int>(poster_));
            return Status::not_allowed;
        }
        // It is past all but waits that have been answered.
        const CUresult result = driver_.stream_wait_event(place_.handle, event_, 0);
        if (result != CUDA_SUCCESS) return refuse("cuStreamWaitEvent", result);
    }
    poster_ = me;
    return Status::ok;
}

Status StreamLane::post(HeldTransfer& held) noexcept {
    const MutexLock posting(post_mutex_);
    if (closed_) return Status::not_allowed;
    const cuda::ContextGuard guard(driver_, place_.context);
    if (!guard.pushed()) return refuse("cuCtxPushCurrent", guard.result());
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult asked = driver_.stream_is_capturing(place_.handle, &capture);
    if (asked == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT || capture != CU_STREAM_CAPTURE_STATUS_NONE)
        return refuse_capture();
    if (asked != CUDA_SUCCESS) return refuse("cuStreamIsCapturing", asked);
    if (place_.per_thread()) {
        if (const Status taken = take_over(); taken != Status::ok) return taken;
    }
    std::uint64_t number = 0;
    {
        const MutexLock lock(queue_mutex_);
        number = issued_ + 1;
    }
    const Status status = put_on_stream(held, number);
    if (status == Status::in_progress) enqueue(held, number);
    return status;
}

Status StreamLane::put_on_stream(const HeldTransfer& held, std::uint64_t number) noexcept {
    CUresult result =
        driver_.stream_write_value64(place_.handle, cell_.trigger, number, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (result != CUDA_SUCCESS) return refuse("cuStreamWriteValue64", result);
    // From here on the stream has the number, whatever else fails.
    event_behind_ = false;
    if (held.waits_) {
        // No flush: what a NIC wrote is visible before a transfer's data counts as ended.
        result = driver_.stream_wait_value64(place_.handle, cell_.done, number, CU_STREAM_WAIT_VALUE_GEQ);
        if (result != CUDA_SUCCESS) {
            skip(number);
            return refuse("cuStreamWaitValue64", result);
        }
    }
    if (const unsigned recorded = record_event(); recorded != CUDA_SUCCESS) {
        skip(number);
        return refuse("cuEventRecord", recorded);
    }
    return Status::in_progress;
}

unsigned StreamLane::record_event() noexcept {
    const CUresult result = driver_.event_record(event_, place_.handle);
    event_behind_ = result == CUDA_SUCCESS;
    return result;
}

void StreamLane::enqueue(HeldTransfer& held, std::uint64_t number) noexcept {
    const MutexLock lock(queue_mutex_);
    issued_ = number;
    held.number_ = number;
    held.armed_ = true;
    held.next_ = nullptr;
    held.previous_ = last_;
    (last_ ? last_->next_ : first_) = &held;
    last_ = &held;
    if (!first_armed_) {
        first_armed_ = &held;
        next_number_.store(number, std::memory_order_relaxed);
    }
    // Whoever stopped this round earlier found it in no queue.
    if (held.transfer_.status() != Status::ok) any_stopped_.store(true, std::memory_order_relaxed);
    armed_.add();
}

void StreamLane::skip(std::uint64_t number) noexcept {
    const MutexLock lock(queue_mutex_);
    issued_ = number;
    publish();
}

void StreamLane::publish() noexcept {
    if (open_) return;
    cell_.words->done.store(first_ ? first_->number_ - 1 : issued_, std::memory_order_release);
}

void StreamLane::ended(HeldTransfer& held) noexcept {
    const MutexLock lock(queue_mutex_);
    (held.previous_ ? held.previous_->next_ : first_) = held.next_;
    (held.next_ ? held.next_->previous_ : last_) = held.previous_;
    publish();
}

void StreamLane::stopped() noexcept {
    // The round's status was set before: whoever has the lock next sees it.
    const MutexLock lock(queue_mutex_);
    any_stopped_.store(true, std::memory_order_relaxed);
}

void StreamLane::collect(StartList& list) noexcept {
    const std::uint64_t reached = cell_.words->trigger.load(std::memory_order_acquire);
    const bool some_stopped = any_stopped_.load(std::memory_order_relaxed);
    if (reached < next_number_.load(std::memory_order_relaxed) && !some_stopped) return;
    const MutexLock lock(queue_mutex_);
    if (open_) return;  // the stream need not have waited for what came before
    if (some_stopped) any_stopped_.store(false, std::memory_order_relaxed);
    HeldTransfer* left = nullptr;
    for (HeldTransfer* held = first_armed_; held; held = held->next_) {
        if (!held->armed_) continue;
        // Armed, it has a status only where it was stopped.
        if (held->number_ <= reached || held->transfer_.status() != Status::ok) {
            held->armed_ = false;
            list.append(*held);
            armed_.remove();
            continue;
        }
        if (!left) left = held;
        if (!some_stopped) break;
    }
    first_armed_ = left;
    next_number_.store(left ? left->number_ : UINT64_MAX, std::memory_order_relaxed);
}

/// It has passed the event, its context is at its end, or nobody can tell for too long.
bool StreamLane::has_gone(unsigned result) noexcept {
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) {
        unanswered_since_ns_ = 0;
        return result == CUDA_SUCCESS;
    }
    const std::uint64_t now = now_ns();
    if (unanswered_since_ns_ == 0) unanswered_since_ns_ = now;
    return cuda::ends_context(result) || now - unanswered_since_ns_ >= cuda::unanswered_limit_ns;
}

void StreamLane::check() noexcept {
    if (next_number_.load(std::memory_order_relaxed) == UINT64_MAX) return;
    // A post may wait in the driver until a transfer ends, which may need this thread.
    if (!post_mutex_.try_lock()) return;
    if (!closed_) {  // else its event has gone
        const cuda::ContextGuard guard(driver_, place_.context);
        const unsigned result = guard.pushed() ? unsigned{driver_.event_query(event_)} : guard.result();
        if (has_gone(result)) {
            fail_armed(result == CUDA_SUCCESS ? "what was put on it did not run"
                                              : cuda::error_name(driver_, result));
        }
    }
    post_mutex_.unlock();
}

/// With the post lock held, so that the event stands behind all that is armed.
void StreamLane::fail_armed(const char* why) noexcept {
    const std::uint64_t reached = cell_.words->trigger.load(std::memory_order_acquire);
    const MutexLock lock(queue_mutex_);
    if (open_) return;  // the engine goes, or has gone meanwhile, and with it what is queued here
    const auto lost = [&](const HeldTransfer& held) { return held.armed_ && held.number_ > reached; };
    unsigned failed = 0;
    for (const HeldTransfer* held = first_armed_; held; held = held->next_)
        failed += lost(*held) ? 1 : 0;
    if (!failed) return;
    // Before anybody can see that they failed: the reason is in the log by then.
    RAILYARD_LOG(error, "stream", "stream %p of GPU %d will never come to %u transfers posted on it: %s",
                 static_cast<void*>(place_.handle), place_.gpu->ordinal(), failed, why);
    for (HeldTransfer* held = first_armed_; held; held = held->next_) {
        if (lost(*held)) held->transfer_.stop(Status::backend);  // its round is open: it has not been started
    }
    any_stopped_.store(true, std::memory_order_relaxed);
}

bool StreamLane::finished() noexcept {
    const MutexLock posting(post_mutex_);
    const cuda::ContextGuard guard(driver_, place_.context);
    if (!guard.pushed()) return cuda::ends_context(guard.result());  // its streams go with it
    if (!event_behind_) {
        if (place_.per_thread() && poster_ != this_thread_id()) return false;  // that would be another stream
        if (record_event() != CUDA_SUCCESS) return false;
    }
    const CUresult result = driver_.event_query(event_);
    return result == CUDA_SUCCESS || cuda::ends_context(result);
}

void StreamLane::open() noexcept {
    const MutexLock lock(queue_mutex_);
    open_ = true;
    cell_.words->done.store(all_done, std::memory_order_release);
}

void StreamLane::close(bool stream_is_through) noexcept {
    const MutexLock posting(post_mutex_);
    if (closed_) return;
    closed_ = true;
    open();
    const cuda::ContextGuard guard(driver_, place_.context);
    if (guard.pushed()) driver_.event_destroy(event_);
    if (stream_is_through) memory_.give_back(cell_);
}

}  // namespace railyard
