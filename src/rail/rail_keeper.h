// The thread that a rail is left to, so that several threads keep to rails of their own.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/thread_tag.h"

namespace railyard {

/// A hint, and no lock: whoever must may use the rail all the same. Posts choose by it, and passes over all
/// rails leave out those that others keep, as long as these look after them. Any thread.
class alignas(cache_line) RailKeeper {
  public:
    /// After so long without a look at its rail, who keeps it has something else to do: what has come there
    /// waits that much longer.
    static constexpr std::uint64_t patience_ns = 50'000;

    [[nodiscard]] ThreadTag thread() const noexcept { return thread_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool is_other_than(ThreadTag me) const noexcept {
        const ThreadTag keeper = thread();
        return keeper != me && keeper != no_thread;
    }
    void set(ThreadTag thread) noexcept { thread_.store(thread, std::memory_order_relaxed); }

    /// For who passes by at `now_ns`; `looks` counts those of any caller at the rail's completions. False:
    /// the keeper has not been there since somebody last passed by, and keeps it no more.
    [[nodiscard]] bool is_at_it(const std::atomic<std::uint32_t>& looks, std::uint64_t now_ns) noexcept {
        const std::uint64_t before = passed_at_.load(std::memory_order_relaxed);
        // Signed: another thread may have been here a little later.
        if (static_cast<std::int64_t>(now_ns - before) < static_cast<std::int64_t>(patience_ns)) return true;
        const std::uint32_t seen = looks.load(std::memory_order_relaxed);
        passed_at_.store(now_ns, std::memory_order_relaxed);
        if (seen_.exchange(seen, std::memory_order_relaxed) != seen) return true;
        set(no_thread);
        return false;
    }

  private:
    std::atomic<ThreadTag> thread_{no_thread};
    std::atomic<std::uint32_t> seen_{0};       ///< of the looks, when somebody last passed by
    std::atomic<std::uint64_t> passed_at_{0};  ///< ns; then
};

}  // namespace railyard
