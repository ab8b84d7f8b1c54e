// Streams, each on a thread of its own, and events.
#pragma once

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace fakecuda {

/// One record of an event on a stream.
class Marker {
  public:
    void reach();
    void wait();
    [[nodiscard]] bool reached();

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool reached_ = false;
};

class Stream;

struct Event {
    std::mutex mutex;
    std::shared_ptr<Marker> last;  ///< none: never recorded, which counts as reached
    std::shared_ptr<Stream> stream;
    CUcontext context = nullptr;

    /// Of the stream that it was last recorded on.
    CUresult error();
};

/// No order with other streams but through events and memory: the default stream, too, waits for none and
/// none waits for it, which is stricter with programs than the driver is.
class Stream {
  public:
    /// Returns CUDA_ERROR_NOT_READY to be asked again: an operation that waits for something.
    using Operation = std::function<CUresult()>;

    Stream(CUcontext context, int device, unsigned flags, std::uint64_t seed);
    /// The stream must be joined before it goes.
    void start();
    /// True once it is closed and drained.
    [[nodiscard]] bool finished() const { return finished_; }
    void join() { thread_.join(); }
    /// Appends; while capturing the operation is only recorded.
    void enqueue(Operation operation);
    /// The same, but done even when the stream is in error: markers of events, so that nobody waits for ever.
    void enqueue_always(Operation operation);
    CUresult error();
    /// Everything that was enqueued before the call.
    CUresult synchronize();
    CUresult query();
    /// No more work comes; what is there is done.
    void close();
    /// Also ends operations that wait for something.
    void abort();

    CUresult begin_capture(CUstreamCaptureMode mode);
    /// Ends a capture that unsafe calls of other threads disturb; false: there is none.
    bool spoil_global_capture();
    CUresult end_capture();
    CUstreamCaptureStatus capturing();
    std::uint64_t capture_id();

    const CUcontext context;
    const int device;
    const unsigned flags;
    bool prior = false;  ///< of the greatest priority; set before start()

  private:
    void run();
    void pause();
    CUresult execute(const Operation& operation);

    std::mutex mutex_;
    std::condition_variable work_, progress_;
    struct Entry {
        Operation operation;
        bool always;
    };
    void push(Entry entry);
    std::deque<Entry> queue_;
    std::uint64_t enqueued_ = 0, done_ = 0;
    bool closed_ = false, capturing_ = false;
    std::uint64_t capture_id_ = 0;
    CUstreamCaptureMode capture_mode_ = CU_STREAM_CAPTURE_MODE_GLOBAL;
    bool capture_spoilt_ = false;
    CUresult error_ = CUDA_SUCCESS;
    std::atomic<bool> aborted_{false}, finished_{false};
    std::thread thread_;
    std::mt19937_64 random_;
};

}  // namespace fakecuda
