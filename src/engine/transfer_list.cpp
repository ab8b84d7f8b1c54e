#include "engine/transfer_list.h"

namespace railyard {

TransferList::~TransferList() {
    while (head_) {
        Transfer* transfer = head_;
        head_ = transfer->next;
        transfer->leave_counts();
        delete transfer;
    }
}

Transfer* TransferList::add(std::unique_ptr<Transfer> transfer) noexcept {
    const MutexLock lock(mutex_);
    transfer->next = head_;
    if (head_) head_->previous = transfer.get();
    head_ = transfer.get();
    return transfer.release();
}

void TransferList::unlink(Transfer& transfer) noexcept {
    transfer.leave_counts();  // with the lock, so that add_up() finds them in one place
    (transfer.previous ? transfer.previous->next : head_) = transfer.next;
    if (transfer.next) transfer.next->previous = transfer.previous;
}

void TransferList::release(Transfer* transfer) noexcept {
    {
        const MutexLock lock(mutex_);
        if (!transfer->done()) {
            transfer->end_early(Status::canceled);
            transfer->retired = true;
            retired_count_.fetch_add(1, std::memory_order_relaxed);
            return;
        }
        unlink(*transfer);
    }
    delete transfer;
}

void TransferList::sweep() noexcept {
    Transfer* over = nullptr;
    {
        const MutexLock lock(mutex_);
        for (Transfer* transfer = head_; transfer;) {
            Transfer* next = transfer->next;
            if (transfer->retired && transfer->done()) {
                unlink(*transfer);
                transfer->next = over;
                over = transfer;
                retired_count_.fetch_sub(1, std::memory_order_relaxed);
            }
            transfer = next;
        }
    }
    while (over) {
        Transfer* next = over->next;
        delete over;
        over = next;
    }
}

void TransferList::add_up(std::span<const std::shared_ptr<Peer>> peers) {
    const MutexLock lock(mutex_);
    for (const std::shared_ptr<Peer>& peer : peers) {
        for (std::size_t kind = 0; kind < 2; ++kind) {
            const auto now = [](const PeerTraffic::Counter& counter) {
                return counter.load(std::memory_order_relaxed);
            };
            peer->watched.transfers[kind] = now(peer->traffic.directions[kind].transfers);
            peer->watched.bytes[kind] = now(peer->traffic.directions[kind].bytes);
        }
    }
    for (const Transfer* transfer = head_; transfer; transfer = transfer->next) {
        if (!transfer->peer || transfer->of_peer) continue;
        const std::uint64_t rounds = transfer->ended_well.load(std::memory_order_relaxed);
        const auto kind = static_cast<std::size_t>(transfer->kind);
        transfer->peer->watched.transfers[kind] += rounds;
        transfer->peer->watched.bytes[kind] += rounds * transfer->total_bytes;
    }
}

MemoryUse TransferList::use_of(const Registration& region) const {
    MemoryUse use = MemoryUse::none;
    const MutexLock lock(mutex_);
    for (const Transfer* transfer = head_; transfer; transfer = transfer->next) {
        if (transfer->done() || !transfer->uses(region)) continue;
        if (transfer->waited_for != transfer->round()) return MemoryUse::now;
        use = MemoryUse::for_long;
    }
    return use;
}

void TransferList::give_up_in_flight() noexcept {
    const MutexLock lock(mutex_);
    for (const Transfer* transfer = head_; transfer; transfer = transfer->next) {
        if (transfer->done()) continue;
        for (const auto& region : transfer->locals)
            region->given_up.fetch_add(1, std::memory_order_relaxed);
    }
}

void TransferList::waited_in_vain_for(const Registration& region) {
    const MutexLock lock(mutex_);
    for (Transfer* transfer = head_; transfer; transfer = transfer->next) {
        if (!transfer->done() && transfer->uses(region)) transfer->waited_for = transfer->round();
    }
}

void TransferList::stop_transfers_to(const Peer& peer, Status status) {
    const MutexLock lock(mutex_);
    for (Transfer* transfer = head_; transfer; transfer = transfer->next) {
        if (transfer->peer.get() == &peer && !transfer->done()) transfer->end_early(status);
    }
}

}  // namespace railyard
