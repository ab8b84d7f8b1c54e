// The part of a transfer that some rails share, and what one of them takes of it at a time.
#pragma once

#include <atomic>
#include <cstdint>

namespace railyard {

/// Chunks [begin, end) of a Work.
struct Run {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    [[nodiscard]] bool empty() const noexcept { return begin == end; }
    [[nodiscard]] std::uint32_t size() const noexcept { return end - begin; }
};

class Work;

/// Chunks [begin, end) of a work, all of which the same rails may carry. Rails pull runs of them.
class Lane {
  public:
    Lane(Work& owner, std::uint32_t begin, std::uint32_t end) : work(&owner), begin_(begin), end_(end) {}
    /// While nobody pulls: lanes are laid out before their work is first armed.
    Lane(Lane&& other) noexcept
        : work(other.work),
          striped(other.striped),
          run_length(other.run_length),
          share(other.share),
          few(other.few),
          undivided_from(other.undivided_from),
          begin_(other.begin_),
          end_(other.end_) {}

    /// Takes the next at most `limit` chunks; empty when none are left. Any rail's role holder.
    Run take_run(std::uint32_t limit) noexcept {
        if (cursor_.load(std::memory_order_relaxed) >= end_) return {};
        // Each chunk index is handed out once; the chunks themselves were published by the hand-over.
        const std::uint32_t begin = cursor_.fetch_add(limit, std::memory_order_relaxed);
        if (begin >= end_) return {};
        return {begin, end_ - begin < limit ? end_ : begin + limit};
    }
    /// The same for all that is left of a lane that no other rail has been offered.
    Run take_alone() noexcept {
        const Run run{cursor_.load(std::memory_order_relaxed), end_};
        cursor_.store(end_, std::memory_order_relaxed);
        return run.begin < end_ ? run : Run{};
    }
    [[nodiscard]] std::uint32_t size() const noexcept { return end_ - begin_; }
    /// Chunks that nobody has taken, at some moment of late.
    [[nodiscard]] std::uint32_t left() const noexcept {
        const std::uint32_t next = cursor_.load(std::memory_order_relaxed);
        return next < end_ ? end_ - next : 0;
    }
    /// The chunk that is taken next, at some moment of late, or one behind the lane.
    [[nodiscard]] std::uint32_t next() const noexcept { return cursor_.load(std::memory_order_relaxed); }
    /// One chunk in all.
    [[nodiscard]] bool is_single() const noexcept { return end_ - begin_ == 1; }
    /// Only while the work is done.
    void rewind() noexcept { cursor_.store(begin_, std::memory_order_relaxed); }

    Work* const work;
    bool striped = false;           ///< several rails share it, so none may take far ahead
    std::uint32_t run_length = 16;  ///< chunks a rail takes in one go
    /// Chunks that one rail may have outstanding, so that the first to look leaves the others theirs.
    std::uint32_t share = UINT32_MAX;
    /// With fewer chunks than that under way to the peer a rail need not look at the length of the next.
    std::uint32_t few = 1;
    /// Of a striped lane: while its rails have so many bytes under way, one of them carries all of it.
    std::uint64_t undivided_from = UINT64_MAX;

  private:
    const std::uint32_t begin_;
    const std::uint32_t end_;
    std::atomic<std::uint32_t> cursor_{0};
};

}  // namespace railyard
