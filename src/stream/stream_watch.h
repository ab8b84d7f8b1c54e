// The thread that asks the driver about streams, so that no thread that moves data has to.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "stream/lanes.h"

namespace railyard {

/// A call of the driver may wait until the GPU has drained, and the GPU for a transfer: whoever makes that
/// call must not be the one that the transfer needs. The thread sleeps while nothing waits for a stream, else
/// it looks every 50 ms. Any thread.
class StreamWatch {
  public:
    explicit StreamWatch(std::shared_ptr<Lanes> lanes);
    /// After close().
    ~StreamWatch();
    StreamWatch(const StreamWatch&) = delete;
    StreamWatch& operator=(const StreamWatch&) = delete;

    /// Starts the thread, once. Where there can be none, which is said in the log once, whoever makes
    /// progress has to look, and the next call tries again.
    void start() noexcept;
    [[nodiscard]] bool runs() const noexcept { return runs_.load(std::memory_order_relaxed); }
    /// What the thread does, by somebody else while there is none.
    void look_now_and_then() noexcept;

    /// Closes the lanes, which are open, in the thread where there is one. A thread that does not come back
    /// from the driver within 4 s is left to it, with the lanes, which is said in the log.
    void close() noexcept;

  private:
    const std::shared_ptr<Lanes> lanes_;
    const std::shared_ptr<std::atomic<bool>> ended_;  ///< the thread is through with the lanes
    std::atomic<bool> runs_{false};
    std::atomic<std::uint64_t> next_look_{0};  ///< ns
    Mutex mutex_;
    std::thread thread_ ABSL_GUARDED_BY(mutex_);
    bool closed_ ABSL_GUARDED_BY(mutex_) = false;
    bool said_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace railyard
