#include "engine/served.h"

#include <algorithm>

namespace railyard {

void ServedRequests::add(std::list<Served>& one, std::uint64_t now_ns) noexcept {
    const MutexLock lock(mutex_);
    const std::uint64_t nonce = one.front().peer->nonce(), id = one.front().id;
    served_.splice(served_.end(), one);
    count();
    if (is_among_withdrawals(nonce, id)) stop_one(nonce, id, now_ns);
}

void ServedRequests::withdraw(std::uint64_t nonce, const std::vector<std::uint64_t>& ids,
                              std::uint64_t now_ns) {
    const MutexLock lock(mutex_);
    for (const std::uint64_t id : ids) {
        if (stop_one(nonce, id, now_ns)) continue;
        if (early_withdrawals_.size() == most_early_withdrawals) early_withdrawals_.pop_front();
        early_withdrawals_.emplace_back(nonce, id);
    }
}

bool ServedRequests::stop_one(std::uint64_t nonce, std::uint64_t id, std::uint64_t now_ns) noexcept {
    const auto served = std::find_if(served_.begin(), served_.end(), [&](const Served& one) {
        return one.id == id && one.peer->nonce() == nonce;
    });
    if (served == served_.end()) return false;
    if (!served->transfer) return true;  // it has ended
    served->transfer->end_early(Status::canceled);
    served->interrupt_at = now_ns + withdrawal_patience_ns;
    return true;
}

bool ServedRequests::is_among_withdrawals(std::uint64_t nonce, std::uint64_t id) const noexcept {
    return std::find(early_withdrawals_.begin(), early_withdrawals_.end(), std::pair{nonce, id}) !=
           early_withdrawals_.end();
}

bool ServedRequests::was_withdrawn(std::uint64_t nonce, std::uint64_t id) const noexcept {
    const MutexLock lock(mutex_);
    return is_among_withdrawals(nonce, id);
}

void ServedRequests::forget_withdrawal(std::uint64_t nonce, std::uint64_t id) noexcept {
    const MutexLock lock(mutex_);
    std::erase(early_withdrawals_, std::pair{nonce, id});
}

ServedRequests::Look ServedRequests::look(ServedTransfers& transfers, std::uint64_t now_ns) noexcept {
    Look found;
    const MutexLock lock(mutex_);
    for (auto next = served_.begin(); next != served_.end();) {
        const auto served = next++;
        if (served->peer->unacquainted()) transfers.introduce_again(served->peer);
        if (served->is_under_way()) {
            found.under_way = true;
            if (now_ns < served->interrupt_at) continue;
            served->interrupt_at = UINT64_MAX;
            transfers.interrupt_transfer(*served->transfer);
        } else if (served->is_withheld()) {
            found.withheld = true;
        } else {
            found.ended.splice(found.ended.end(), served_, served);
        }
    }
    count();
    return found;
}

void ServedRequests::put_back(std::list<Served>& served) noexcept {
    const MutexLock lock(mutex_);
    served_.splice(served_.end(), served);
    count();
}

}  // namespace railyard
