// How many transfers wait for their streams, and the sleep of who watches these while there are none.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"

namespace railyard {

/// Of one engine, over all lanes: transfers that are posted and not started.
class ArmedCount {
  public:
    /// Any thread. A locked instruction and a load, unless the watching thread sleeps.
    void add() noexcept {
        // The progress thread says that it sleeps, then looks at this; the post looks whether it sleeps after
        // it. The watching thread does the same.
        count_.fetch_add(1, std::memory_order_seq_cst);
        if (asleep_.load(std::memory_order_seq_cst)) rouse();
    }
    void remove() noexcept { count_.fetch_sub(1, std::memory_order_relaxed); }
    [[nodiscard]] bool any() const noexcept { return count_.load(std::memory_order_seq_cst) != 0; }

    /// The watching thread's: returns when there are some and `interval` has passed; false: end() was called.
    [[nodiscard]] bool sleep(std::chrono::milliseconds interval) noexcept;
    /// No sleep from here on. Any thread.
    void end() noexcept;

  private:
    void rouse() noexcept;

    std::atomic<std::uint32_t> count_{0};
    std::atomic<bool> asleep_{false};  ///< written with the lock held
    Mutex mutex_;
    std::condition_variable_any changed_;
    bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace railyard
