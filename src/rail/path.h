// One of our rails towards one of a peer's: whether it may be used, as everybody who posts on it sees it.
#pragma once

#include <atomic>
#include <cstdint>

namespace railyard {

/// Lives as long as its peer, and so longer than any route over it. Any thread.
class Path {
  public:
    /// The peer has said that it knows the endpoint which our rail sends from: the one of that generation.
    void admit(std::uint32_t generation) noexcept {
        // Release: pairs with the rail's look before it posts.
        admitted_.store(generation, std::memory_order_release);
    }
    [[nodiscard]] bool admits(std::uint32_t generation) const noexcept {
        return admitted_.load(std::memory_order_acquire) == generation;
    }
    /// The peer has forgotten us.
    void forget() noexcept { admitted_.store(0, std::memory_order_release); }
    /// The peer knows us, if perhaps not the latest endpoint.
    [[nodiscard]] bool introduced() const noexcept { return admitted_.load(std::memory_order_acquire) != 0; }

    /// An operation ended because nobody answered; others should go another way. True for the first to say
    /// so.
    bool fail() noexcept {
        if (failures_.fetch_or(failed_now, std::memory_order_acq_rel) & failed_now) return false;
        failures_.fetch_add(one_failure, std::memory_order_acq_rel);
        return true;
    }
    /// How often it has failed: what was sent before the last time says nothing of the time since.
    [[nodiscard]] std::uint32_t failures() const noexcept {
        return failures_.load(std::memory_order_acquire) / one_failure;
    }
    /// Something went through again. True when it had failed.
    bool heal() noexcept {
        return failures_.fetch_and(~(failed_now | left_now | doubted_now), std::memory_order_acq_rel) &
               failed_now;
    }
    [[nodiscard]] bool failed() const noexcept {
        return failures_.load(std::memory_order_acquire) & failed_now;
    }
    /// `left`: it has failed and another one to the same peer has not, so messages that wait here go there.
    void leave(bool left) noexcept {
        if (left) {
            if (!is_left()) failures_.fetch_or(left_now, std::memory_order_acq_rel);
        } else if (failures_.load(std::memory_order_relaxed) & left_now) {
            failures_.fetch_and(~left_now, std::memory_order_acq_rel);
        }
    }
    [[nodiscard]] bool is_left() const noexcept {
        constexpr std::uint32_t both = failed_now | left_now;
        return (failures_.load(std::memory_order_acquire) & both) == both;
    }
    /// What was sent over it is not answered, and there is no error: it is to be asked.
    void doubt() noexcept { failures_.fetch_or(doubted_now, std::memory_order_acq_rel); }
    [[nodiscard]] bool is_doubted() const noexcept {
        return (failures_.load(std::memory_order_relaxed) & (failed_now | doubted_now)) == doubted_now;
    }

    /// A chunk, or the rest of a lane, went another way.
    void count_failover() noexcept { count(failovers_); }
    /// An operation was carried out again over it.
    void count_repeat() noexcept { count(repeats_); }
    [[nodiscard]] std::uint32_t failovers() const noexcept {
        return failovers_.load(std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint32_t repeats() const noexcept { return repeats_.load(std::memory_order_relaxed); }

    /// Chunks that the provider has for it. These by the holder of its rail's role.
    void count_posted(std::uint32_t chunks) noexcept { outstanding_ += chunks; }
    void count_ended(std::uint32_t chunks) noexcept { outstanding_ -= chunks; }
    [[nodiscard]] std::uint32_t outstanding() const noexcept { return outstanding_; }

  private:
    static constexpr std::uint32_t failed_now = 1, left_now = 2, doubted_now = 4, one_failure = 8;
    static void count(std::atomic<std::uint32_t>& counter) noexcept {
        counter.fetch_add(1, std::memory_order_relaxed);
    }

    std::atomic<std::uint32_t> admitted_{0};  ///< 0: no endpoint of ours
    std::atomic<std::uint32_t> failures_{0};  ///< their number above the bits of how it is now
    std::atomic<std::uint32_t> failovers_{0}, repeats_{0};
    std::uint32_t outstanding_ = 0;
};

}  // namespace railyard
