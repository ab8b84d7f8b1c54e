// Peers' requests on their way (ADR 11).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "engine/peer.h"
#include "engine/transfer.h"

namespace railyard {

struct Served {
    Transfer* transfer = nullptr;  ///< nullptr: it has ended, and there was no memory to say so
    std::shared_ptr<Peer> peer;
    std::uint64_t id = 0;
    std::uint64_t interrupt_at = UINT64_MAX;  ///< ns
    Status status = Status::in_progress;
    /// The transfer's Submission::late: what was given up of it and may still reach the asker's memory, which
    /// is its own again once it is answered.
    std::atomic<std::uint32_t> late{0};

    [[nodiscard]] bool is_under_way() const noexcept { return transfer && !transfer->done(); }
    /// It has ended, and its answer waits until nothing of it can land any more.
    [[nodiscard]] bool is_withheld() const noexcept {
        return !is_under_way() && late.load(std::memory_order_acquire) != 0;
    }
};

/// What an engine does for those that are under way. With the list's lock held.
class ServedTransfers {
  public:
    virtual void interrupt_transfer(Transfer& transfer) noexcept = 0;
    virtual void introduce_again(const std::shared_ptr<Peer>& peer) noexcept = 0;

  protected:
    ~ServedTransfers() = default;
};

/// All of an engine's, and those that were withdrawn before they came: messages have no order. Any thread.
class ServedRequests {
  public:
    /// What a withdrawn request is granted to end by itself; who withdrew it waits
    /// ForwardRail::word_limit_ns.
    static constexpr std::uint64_t withdrawal_patience_ns = 20'000'000;
    static constexpr std::size_t most_early_withdrawals = 1024;

    /// Nothing to look at; without a lock.
    [[nodiscard]] bool none() const noexcept { return count_.load(std::memory_order_acquire) == 0; }
    /// The one in `one`, which its peer may have withdrawn meanwhile.
    void add(std::list<Served>& one, std::uint64_t now_ns) noexcept;
    /// Those that are not there (any more) may still come. Throws std::bad_alloc.
    void withdraw(std::uint64_t nonce, const std::vector<std::uint64_t>& ids, std::uint64_t now_ns);
    /// Before it came.
    [[nodiscard]] bool was_withdrawn(std::uint64_t nonce, std::uint64_t id) const noexcept;
    /// Once it has been answered: without memory for that it is looked at again.
    void forget_withdrawal(std::uint64_t nonce, std::uint64_t id) noexcept;

    struct Look {
        std::list<Served> ended{};  ///< to be answered
        bool under_way = false;     ///< some are
        bool withheld = false;      ///< some have ended and are not to be answered yet
    };
    /// Takes out what has ended and can be answered; what was withdrawn and has not ended in time is
    /// interrupted.
    Look look(ServedTransfers& transfers, std::uint64_t now_ns) noexcept;
    /// Those that could not be answered.
    void put_back(std::list<Served>& served) noexcept;

  private:
    /// False: it is not there.
    bool stop_one(std::uint64_t nonce, std::uint64_t id, std::uint64_t now_ns) noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    [[nodiscard]] bool is_among_withdrawals(std::uint64_t nonce, std::uint64_t id) const noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    void count() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        count_.store(served_.size(), std::memory_order_release);
    }

    mutable Mutex mutex_;
    std::list<Served> served_ ABSL_GUARDED_BY(mutex_);
    /// By instance and id: the oldest first.
    std::deque<std::pair<std::uint64_t, std::uint64_t>> early_withdrawals_ ABSL_GUARDED_BY(mutex_);
    std::atomic<std::size_t> count_{0};
};

}  // namespace railyard
