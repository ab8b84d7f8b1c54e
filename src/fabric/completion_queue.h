// The completion queue of one rail: the only reader of completions.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fabric/domain.h"
#include "fabric/fid.h"

namespace railyard::fabric {

class ImmediateSink;

class CompletionQueue {
  public:
    /// `depth` is the number of operations that may be outstanding on it; where the device refuses that, it
    /// is asked for less in steps, down to `least`. `blocking`: open it with a file descriptor to wait for,
    /// where the provider has that. Throws Error.
    CompletionQueue(const Domain& domain, std::size_t depth, bool blocking, std::size_t least = SIZE_MAX);

    /// What it has become.
    [[nodiscard]] std::size_t depth() const noexcept { return depth_; }

    /// Ends up to about `limit` operations through OpContext::complete_with; returns how many. This call also
    /// drives providers that progress manually. Role holder only.
    std::size_t drain(std::size_t limit) noexcept;

    /// The same until there is nothing more: the provider ends a read early in front of an error, too.
    std::size_t drain_whole(std::size_t limit) noexcept;

    /// Reads as much, and nobody hears of it. Role holder only.
    void drop(std::size_t limit) noexcept { drop<false>(limit); }
    /// The same of a queue all of whose contexts are still there: what has ended is with the provider no
    /// more.
    void drop_ended(std::size_t limit) noexcept { drop<true>(limit); }

    /// Who hears of peers' immediate data; nobody at first. Role holder only.
    void tell_of_immediates(ImmediateSink* sink) noexcept { immediates_ = sink; }

    /// Operations so far that have ended with their endpoint. Role holder only.
    [[nodiscard]] std::uint64_t flushed() const noexcept { return flushed_; }

    /// File descriptor that becomes readable when drain has work; -1 where the provider has none.
    [[nodiscard]] int wait_fd() const noexcept { return wait_fd_; }

    /// True once the provider has answered with errors that no operation explains: at once where it names a
    /// queue or device that does not come back, else after `most_failures` in a row. Stays true. Operations
    /// outstanding on a broken queue may never end. Any thread.
    [[nodiscard]] bool broken() const noexcept { return broken_.load(std::memory_order_relaxed); }
    static constexpr std::uint32_t most_failures = 8;
    /// The same, where it is the device that has gone. Any thread.
    [[nodiscard]] bool device_gone() const noexcept { return device_gone_.load(std::memory_order_relaxed); }

    [[nodiscard]] fid_cq* get() const noexcept { return queue_.get(); }

  private:
    int open(std::size_t depth, bool waitable) noexcept;
    int open(std::size_t depth, std::size_t least, bool waitable) noexcept;
    template <bool ends>
    void drop(std::size_t limit) noexcept;
    template <bool whole>
    std::size_t read(std::size_t limit) noexcept;
    [[gnu::cold]] void complete_remote(const fi_cq_data_entry& entry) noexcept;
    bool complete_error() noexcept;
    void tell_of(const fi_cq_err_entry& error, Status status) noexcept;
    void count_failure(const char* call, ssize_t answer) noexcept;

    const Domain& domain_;
    Codes codes_ = Codes::unread;
    bool immediates_take_receives_ = false;
    ImmediateSink* immediates_ = nullptr;
    int wait_fd_ = -1;
    std::uint64_t failures_ = 0;  // of the provider's calls, role holder only
    std::uint64_t repeated_ = 0;  ///< ends of operations that had ended
    std::uint64_t failed_ = 0;    ///< operations, that no other way is tried for
    std::uint64_t flushed_ = 0;
    std::uint32_t failures_in_row_ = 0;  // since it last answered as it should
    std::atomic<bool> broken_{false};
    std::atomic<bool> device_gone_{false};
    std::size_t depth_ = 0;
    Fid<fid_cq> queue_;
};

}  // namespace railyard::fabric
