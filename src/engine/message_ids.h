// The numbers of an engine's control messages, of its eager WRITEs and READs, and of its early notifications.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "common/recent_table.h"
#include "engine/early_window.h"

namespace railyard {

/// Counts the messages to one instance without a gap, so that it can remember all that it has received. Any
/// thread.
class MessageIds {
  public:
    /// Messages that are counted from one base; then another one is drawn.
    static constexpr std::uint64_t base_bits = 24;
    MessageIds() noexcept : next_(draw()), next_eager_(draw()) {}
    std::uint64_t next() noexcept { return count(next_); }
    /// Of an eager WRITE or READ, likewise.
    std::uint64_t next_eager() noexcept { return count(next_eager_); }

    /// Counts on in the same way.
    EarlyWindow early;

  private:
    std::uint64_t count(std::atomic<std::uint64_t>& next) noexcept {
        std::uint64_t id = next.load(std::memory_order_relaxed);
        std::uint64_t after = 0;
        do {
            after = (id + 1) % (std::uint64_t{1} << base_bits) ? id + 1 : draw();
        } while (!next.compare_exchange_weak(id, after, std::memory_order_relaxed));
        return id;
    }
    /// The process's, so that little is kept of each instance: 2^40 of them last for ever.
    static std::uint64_t draw() noexcept {
        static std::atomic<std::uint64_t> bases{1};
        return bases.fetch_add(1, std::memory_order_relaxed) << base_bits;
    }

    std::atomic<std::uint64_t> next_, next_eager_;
};

/// An engine's: an instance that is disconnected and met again is counted on. One that has been forgotten
/// meanwhile is counted from another base: no number is given twice. Any thread.
class MessageCounters {
  public:
    explicit MessageCounters(std::size_t most = 65'536) : counters_(most) {}
    std::shared_ptr<MessageIds> of(std::uint64_t nonce) {
        const MutexLock lock(mutex_);
        if (const auto* const known = counters_.find(nonce)) return *known;
        auto fresh = std::make_shared<MessageIds>();
        static_cast<void>(counters_.add(nonce, fresh));
        return fresh;
    }
    /// nullptr: it was never met, or has been forgotten.
    std::shared_ptr<MessageIds> known(std::uint64_t nonce) {
        const MutexLock lock(mutex_);
        const auto* const known = counters_.find(nonce);
        return known ? *known : nullptr;
    }

  private:
    Mutex mutex_;
    RecentTable<std::shared_ptr<MessageIds>> counters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace railyard
