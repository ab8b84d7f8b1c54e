// The transmit queue of one endpoint: doorbell, wire, delivery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "provider/nic.h"
#include "provider/operation.h"
#include "provider/wire.h"

namespace simefa {

/// What delivery must know of the endpoint.
struct Sender {
    std::uint64_t id = 0;          ///< Address::id of the endpoint
    bool direct = false;           ///< the target must know us
    bool unsolicited = true;       ///< our immediate data needs no receive buffer
    unsigned not_ready_limit = 7;  ///< attempts without a receive buffer; 7: no limit
};

/// Guarded by the domain's lock; never blocks. Bytes move inside progress().
class TransmitQueue {
  public:
    TransmitQueue(Nic& nic, OperationOwner& endpoint, std::size_t depth);
    ~TransmitQueue();
    TransmitQueue(const TransmitQueue&) = delete;
    TransmitQueue& operator=(const TransmitQueue&) = delete;

    Sender sender;

    /// An operation to fill in and hand to post(); null: the queue is full.
    Operation* allocate() noexcept;
    /// The same outside the application's depth, for protocols; null: out of those, too.
    Operation* allocate_internal() noexcept;
    void discard(Operation& operation) noexcept;
    /// Takes over `operation`. `more`: the doorbell may wait for the next post.
    void post(Operation& operation, bool more) noexcept;
    /// Rings for what was posted with `more`; nothing posted, nothing rung.
    void ring() noexcept;
    /// Carries out what is due, within a budget; returns the number of operations that ended.
    std::size_t progress(std::uint64_t now) noexcept;
    /// When progress has something to do; UINT64_MAX: never on its own.
    [[nodiscard]] std::uint64_t next_due() const noexcept;
    /// Forgets everything, silently: nothing lands after this.
    void drop_all() noexcept;
    /// Something has been posted, and has not ended for the device. What is reported already does not count.
    [[nodiscard]] bool unfinished() const noexcept { return !staged_.empty() || in_flight_ > late_; }
    [[nodiscard]] std::size_t room() const noexcept { return depth_ - outstanding_; }

  private:
    struct Batch;
    void book_rung(std::uint64_t now) noexcept;
    bool carry_out(Operation& operation, std::uint64_t now, Batch& batch) noexcept;
    void retry(Operation& operation, std::uint64_t at) noexcept;
    void finish(Operation& operation, int status, Batch& batch) noexcept;
    void recycle(Operation& operation) noexcept;
    bool pretend_failure(Operation& operation, std::uint64_t now) noexcept;
    void settle(Batch& batch) noexcept;

    Nic& nic_;
    OperationOwner& endpoint_;
    const std::size_t depth_;
    std::size_t outstanding_ = 0;  ///< the application's
    std::size_t in_flight_ = 0;    ///< rung and not ended
    std::size_t late_ = 0;         ///< of them, those that have been reported
    Operation* pool_;
    std::size_t pool_size_, pool_used_ = 0;
    Operation* free_ = nullptr;
    OperationList staged_;  ///< posted, the doorbell has not rung
    OperationList rung_;    ///< waits for room on the wire
    Wire wire_;
};

}  // namespace simefa
