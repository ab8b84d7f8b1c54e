// Tells a process from its forked children, without a system call.
#pragma once

#include <atomic>
#include <cstdint>

namespace railyard {

namespace detail {
extern std::atomic<std::uint32_t> forks;
}

/// Makes fork_generation() count from here on; any number of times. Throws Error{backend}.
void watch_forks();

/// Another value in each child of fork() than in its parent. vfork() and bare clone() are not seen. Any
/// thread.
[[nodiscard]] inline std::uint32_t fork_generation() noexcept {
    return detail::forks.load(std::memory_order_relaxed);
}

/// State of one process: a forked child has its own, made at its first use, as the parent's tells of what
/// does not go on there, and its locks may have been held at the fork. Outlives static destructors. Any
/// thread.
template <class State>
class OfThisProcess {
  public:
    constexpr OfThisProcess() noexcept = default;
    OfThisProcess(const OfThisProcess&) = delete;
    OfThisProcess& operator=(const OfThisProcess&) = delete;

    /// Throws std::bad_alloc at the first use.
    State& get() {
        const std::uint32_t generation = fork_generation();
        Kept* kept = latest_.load(std::memory_order_acquire);
        if (kept && kept->generation == generation) return kept->state;
        auto* const fresh = new Kept(generation, kept);
        if (latest_.compare_exchange_strong(kept, fresh, std::memory_order_acq_rel)) return fresh->state;
        delete fresh;
        return kept->state;  // another thread's, who was first
    }

  private:
    struct Kept {
        Kept(std::uint32_t made_in, const Kept* parents) : generation(made_in), inherited(parents) {}
        const std::uint32_t generation;
        const Kept* const inherited;  ///< never touched, and no leak
        State state;
    };
    std::atomic<Kept*> latest_{nullptr};
};

/// Keeps what a child has inherited and must not destroy, so that it is no leak. Any thread.
void leave_to_parent(void* inherited) noexcept;

}  // namespace railyard
