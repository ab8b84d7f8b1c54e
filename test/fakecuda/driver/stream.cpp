#include "stream.h"

#include <chrono>
#include <thread>

#include "state.h"

namespace fakecuda {

using namespace std::chrono_literals;

void Marker::reach() {
    const std::lock_guard lock(mutex_);
    reached_ = true;
    changed_.notify_all();
}

bool Marker::reached() {
    const std::lock_guard lock(mutex_);
    return reached_;
}

void Marker::wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return reached_; });
}

Stream::Stream(CUcontext owner, int ordinal, unsigned stream_flags, std::uint64_t seed)
    : context(owner), device(ordinal), flags(stream_flags), random_(seed) {}

void Stream::start() {
    thread_ = std::thread([this] {
        run();
        finished_ = true;
    });
}

CUresult Event::error() {
    std::shared_ptr<Stream> at;
    {
        const std::lock_guard lock(mutex);
        at = stream;
    }
    return at ? at->error() : CUDA_SUCCESS;
}

void Stream::enqueue(Operation operation) {
    push({std::move(operation), false});
}

void Stream::enqueue_always(Operation operation) {
    push({std::move(operation), true});
}

CUresult Stream::error() {
    const std::lock_guard lock(mutex_);
    return error_;
}

void Stream::push(Entry entry) {
    const std::lock_guard lock(mutex_);
    if (capturing_) return;  // recorded: no graph of ours is ever launched
    queue_.push_back(std::move(entry));
    ++enqueued_;
    work_.notify_one();
}

CUresult Stream::synchronize() {
    std::unique_lock lock(mutex_);
    if (capturing_) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    progress_.wait(lock, [this, target = enqueued_] { return done_ >= target; });
    return error_;
}

CUresult Stream::query() {
    const std::lock_guard lock(mutex_);
    if (capturing_) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (error_ != CUDA_SUCCESS) return error_;
    return done_ == enqueued_ ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

void Stream::close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    work_.notify_one();
}

void Stream::abort() {
    aborted_ = true;
    close();
}

CUresult Stream::begin_capture(CUstreamCaptureMode mode) {
    static std::atomic<std::uint64_t> next{1};
    const std::lock_guard lock(mutex_);
    if (capturing_) return CUDA_ERROR_ILLEGAL_STATE;
    capturing_ = true;
    capture_mode_ = mode;
    capture_spoilt_ = false;
    capture_id_ = next++;
    return CUDA_SUCCESS;
}

bool Stream::spoil_global_capture() {
    const std::lock_guard lock(mutex_);
    if (!capturing_ || capture_mode_ != CU_STREAM_CAPTURE_MODE_GLOBAL) return false;
    capture_spoilt_ = true;
    return true;
}

CUresult Stream::end_capture() {
    const std::lock_guard lock(mutex_);
    if (!capturing_) return CUDA_ERROR_ILLEGAL_STATE;
    capturing_ = false;
    return capture_spoilt_ ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

CUstreamCaptureStatus Stream::capturing() {
    const std::lock_guard lock(mutex_);
    return capturing_ ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
}

std::uint64_t Stream::capture_id() {
    const std::lock_guard lock(mutex_);
    return capture_id_;
}

void Stream::pause() {
    const unsigned longest = state().delay_us.load(std::memory_order_relaxed);
    if (longest > 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % (longest + 1)));
    while (state().held.load(std::memory_order_relaxed) && !aborted_)
        std::this_thread::sleep_for(100us);
}

CUresult Stream::execute(const Operation& operation) {
    CUresult result = state().failures.take("execute");
    if (result != CUDA_SUCCESS) return result;
    // Waits look at memory that anybody may write, so nobody can wake them.
    auto patience = 1us;
    while ((result = operation()) == CUDA_ERROR_NOT_READY) {
        if (aborted_) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        std::this_thread::sleep_for(patience);
        if (patience < 100us) patience *= 2;
    }
    return result;
}

void Stream::run() {
    std::unique_lock lock(mutex_);
    for (;;) {
        work_.wait(lock, [this] { return closed_ || !queue_.empty(); });
        if (queue_.empty()) return;
        const Entry entry = std::move(queue_.front());
        queue_.pop_front();
        const bool skip = error_ != CUDA_SUCCESS || aborted_;
        lock.unlock();
        CUresult result = CUDA_SUCCESS;
        if (!skip) pause();
        if (!skip || entry.always) result = entry.always ? entry.operation() : execute(entry.operation);
        lock.lock();
        if (result != CUDA_SUCCESS) error_ = result;
        ++done_;
        progress_.notify_all();
    }
}

}  // namespace fakecuda
