#include "engine/slot_recovery.h"

#include <cstddef>
#include <exception>
#include <utility>

#include "common/clock.h"
#include "common/log.h"

namespace railyard {
namespace {

using Connections = fabric::AcceptedConnections;

/// One that is only slow answers before that.
constexpr std::uint64_t answer_patience_ns = 1'000'000'000;
constexpr std::uint64_t look_ns = 250'000'000;
/// After a look in which we were short of something.
constexpr std::uint64_t look_again_ns = 5'000'000'000;
/// For connections to end by themselves, for those that others use all the time, and between two that are
/// ended.
constexpr std::uint64_t connection_patience_ns = 5'000'000'000;
constexpr std::uint64_t busy_patience_ns = 60'000'000'000;
constexpr std::uint64_t connection_pause_ns = 1'000'000'000;

}  // namespace

void SlotRecovery::look_when_due(RailManager& rails) noexcept {
    const std::uint64_t now = now_ns();
    if (now < next_look_.load(std::memory_order_relaxed) || !rails.withdraws_keys()) return;
    if (looking_.exchange(true, std::memory_order_acquire)) return;
    std::uint64_t pause = look_ns;
    try {
        renew(rails, now);
        withdraw(rails, now);
    } catch (const std::exception& error) {
        pause = look_again_ns;
        if (!std::exchange(told_, true)) {
            RAILYARD_LOG(error, "staging",
                         "buffers that peers did not answer for cannot be used again yet: %s", error.what());
        }
    }
    give_back(now);
    withdrawing_.store(!former_.empty(), std::memory_order_relaxed);
    next_look_.store(now + pause, std::memory_order_relaxed);
    looking_.store(false, std::memory_order_release);
}

void SlotRecovery::renew(RailManager& rails, std::uint64_t now) {
    for (ForwardRail::Loan& loan : forward_.unheard_loans(now - answer_patience_ns)) {
        if (loan.lender->lent() != loan.lent) continue;  // it has been
        former_.reserve(former_.size() + 1);
        rails.lend_anew(*loan.lender);
        former_.emplace_back().lent = std::move(loan.lent);
    }
}

void SlotRecovery::withdraw(RailManager& rails, std::uint64_t now) {
    for (Former& former : former_) {
        if (former.withdrawn_at != 0 || forward_.awaits_answers(*former.lent)) continue;
        rails.deregister_memory(*former.lent);
        if (rails.connects())
            former.connections = {rails.addresses(), forward_.unheard_addresses(*former.lent)};
        former.withdrawn_at = now;
        former.ends_one_at = now + connection_patience_ns;
    }
}

void SlotRecovery::give_back(std::uint64_t now) noexcept {
    for (auto former = former_.begin(); former != former_.end();) {
        if (former->withdrawn_at == 0) {
            ++former;
        } else if (former->connections.are_through()) {
            const std::size_t requests = forward_.forget(*former->lent);
            RAILYARD_LOG(info, "staging", "buffers of %zu requests that were not answered are used again",
                         requests);
            former = former_.erase(former);
        } else {
            if (now >= former->ends_one_at) {
                const bool all = now - former->withdrawn_at > busy_patience_ns;
                former->connections.end_one(all ? Connections::Which::any : Connections::Which::idle);
                former->ends_one_at = now + connection_pause_ns;
            }
            ++former;
        }
    }
}

void SlotRecovery::end(RailManager& rails) noexcept {
    for (const Former& former : former_)
        rails.deregister_memory(*former.lent);
    former_.clear();
}

}  // namespace railyard
