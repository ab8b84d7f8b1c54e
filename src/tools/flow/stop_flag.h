// SIGINT and SIGTERM as a flag: the loops look at it, and calls that a signal interrupted are made again.
#pragma once

#include <atomic>
#include <csignal>

namespace railyard::tools::flow {

inline std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

/// Without SA_RESTART, so that sleeping calls return.
inline void catch_stop_signals() noexcept {
    struct sigaction action {};
    action.sa_handler = [](int) { stop_requested.store(true, std::memory_order_relaxed); };
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

[[nodiscard]] inline bool stopping() noexcept {
    return stop_requested.load(std::memory_order_relaxed);
}

}  // namespace railyard::tools::flow
