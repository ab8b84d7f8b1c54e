// All transfers of an engine: who uses a registration, and what was released while the network still worked
// on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "engine/transfer.h"

namespace railyard {

/// Whether somebody does something with memory.
enum class MemoryUse : std::uint8_t {
    none,
    for_long,  ///< it has been waited for in vain, and will not end for some time
    now,
};

/// Owns every transfer from prepare() to its end. Any thread; never calls out with its lock held.
class TransferList {
  public:
    TransferList() = default;
    /// Frees what is left. The rails must be closed or idle by then.
    ~TransferList();
    TransferList(const TransferList&) = delete;
    TransferList& operator=(const TransferList&) = delete;

    Transfer* add(std::unique_ptr<Transfer> transfer) noexcept;
    /// Frees the transfer now, or, while its round is not over, in a later sweep().
    void release(Transfer* transfer) noexcept;
    /// Frees released transfers whose round is over. Not with a rail's role held.
    void sweep() noexcept;
    [[nodiscard]] bool has_retired() const noexcept {
        return retired_count_.load(std::memory_order_relaxed) != 0;
    }
    /// By posted transfers that are not over.
    [[nodiscard]] MemoryUse use_of(const Registration& region) const;
    /// Calls `look(transfer, in_flight, round)` for every transfer, those to ourselves among them, with the
    /// list's lock held. The round may end at any moment, and another one begin.
    template <class Look>
    void for_each(Look&& look) {
        const MutexLock lock(mutex_);
        for (Transfer* transfer = head_; transfer; transfer = transfer->next) {
            const std::uint32_t round =
                transfer->round();  // first: `started` is of this one, or of a later one
            look(*transfer, !transfer->done() && transfer->started.load(std::memory_order_acquire), round);
        }
    }
    /// Calls `change()` while nobody asks for what transfers use: those of one whose round is over may
    /// change.
    template <class Change>
    void change_memories(Change&& change) {
        const MutexLock lock(mutex_);
        change();
    }
    /// Those that use it now were.
    void waited_in_vain_for(const Registration& region);
    /// As if the operations of what is in flight had been given up, for good.
    void give_up_in_flight() noexcept;
    /// Into `watched.transfers` and `watched.bytes` of the peers: what all transfers to them have come to,
    /// with those that have been freed. Of the engine's watch.
    void add_up(std::span<const std::shared_ptr<Peer>> peers);
    /// Ends the unposted rest of every transfer towards `peer` with `status`.
    void stop_transfers_to(const Peer& peer, Status status);

  private:
    void unlink(Transfer& transfer) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

    mutable Mutex mutex_;
    Transfer* head_ ABSL_GUARDED_BY(mutex_) = nullptr;
    std::atomic<std::size_t> retired_count_{0};
};

}  // namespace railyard
