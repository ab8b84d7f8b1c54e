#include "flow/former_targets.h"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "engine/peer_report.h"

namespace railyard::flow {
namespace {

constexpr std::uint64_t look_pause_ns = 50'000'000;
/// Until the engine has looked at its paths since they failed.
constexpr std::uint64_t settled_after_ns = 300'000'000;
/// The same where some of them have failed: the others may, too.
constexpr std::uint64_t settled_after_failures_ns = 3'000'000'000;
/// Until what it was told has got there, or that it cannot be reached after all has been found out.
constexpr std::uint64_t delivered_after_ns = 1'000'000'000;

}  // namespace

void FormerTargets::add(std::list<FormerTarget> given_up) noexcept {
    const std::uint64_t now = now_ns();
    for (FormerTarget& former : given_up)
        former.since_ns = now;
    while (!given_up.empty()) {
        Transfer* watch = nullptr;
        {
            const MutexLock lock(mutex_);
            watched_.fetch_add(1, std::memory_order_relaxed);
            all_.splice(all_.end(), given_up, given_up.begin());
            if (all_.size() > most) {
                watch = let_go(all_.front());
                all_.pop_front();
            }
        }
        engine_.release(watch);
    }
}

void FormerTargets::forget(const std::string& id) noexcept {
    Transfer* watch = nullptr;
    {
        const MutexLock lock(mutex_);
        const auto found =
            std::find_if(all_.begin(), all_.end(), [&](const auto& each) { return each.id == id; });
        if (found == all_.end()) return;
        watch = let_go(*found);
        all_.erase(found);
    }
    engine_.release(watch);
}

Transfer* FormerTargets::let_go(FormerTarget& former) noexcept {
    if (!former.watch) return nullptr;
    watched_.fetch_sub(1, std::memory_order_relaxed);
    try {
        engine_.disconnect(former.id);
    } catch (const std::exception& error) {
        RAILYARD_LOG(debug, former.id.c_str(), "it is not forgotten: %s", error.what());
    }
    return std::exchange(former.watch, nullptr);
}

void FormerTargets::look() noexcept {
    if (watched_.load(std::memory_order_relaxed) == 0) return;
    const std::uint64_t now = now_ns();
    if (now < next_look_ns_.load(std::memory_order_relaxed)) return;
    if (looking_.exchange(true)) return;  // also ourselves, from further up
    next_look_ns_.store(now + look_pause_ns, std::memory_order_relaxed);
    std::array<Transfer*, most> over{};
    std::size_t count = 0;
    {
        const MutexLock lock(mutex_);
        for (FormerTarget& former : all_) {
            if (!former.watch) continue;
            try {
                look_at(former, now);
            } catch (const std::exception& error) {
                RAILYARD_LOG(debug, former.id.c_str(), "it is told later: %s", error.what());
            }
            if (former.told_at_ns != 0 && now > former.told_at_ns + delivered_after_ns)
                over[count++] = let_go(former);
        }
    }
    engine_.release(over);  // without the mutex: a release may make a pass, which looks
    looking_.store(false);
}

/// Whoever does not answer is not sent anything, which would be under way without an end.
void FormerTargets::look_at(FormerTarget& former, std::uint64_t now) {
    if (engine_.peer_is_gone(*former.watch)) {
        former.told_at_ns = 0;
        return;
    }
    if (former.told_at_ns != 0 || now < former.since_ns + settled_after_ns) return;
    if (now < former.since_ns + settled_after_failures_ns && is_suspect(former.id)) return;
    tell(former);
    former.told_at_ns = now;
}

bool FormerTargets::is_suspect(std::string_view id) const {
    const auto peers = engine_.peers();
    return std::any_of(peers.begin(), peers.end(), [&](const PeerReport& peer) {
        return peer.agent == id && peer.state == PeerState::suspect;
    });
}

void FormerTargets::tell(const FormerTarget& former) {
    engine_.send_notification(former.id,
                              encode(FlowLetter{.kind = LetterKind::close, .opening = former.opening}));
    RAILYARD_LOG(info, former.id.c_str(), "answers again: it is told that it is no target any more");
}

/// What it was told may have overtaken the opening, or been told before that was read.
void FormerTargets::on_letter(const std::string& sender, const FlowLetter& letter) {
    if (letter.kind != LetterKind::taken) return;
    const MutexLock lock(mutex_);
    const auto found = std::find_if(all_.begin(), all_.end(), [&](const FormerTarget& each) {
        return each.id == sender && each.opening == letter.opening;
    });
    if (found == all_.end()) return;
    if (!found->watch) engine_.load_connection_info(sender, found->connection);
    tell(*found);
    if (found->watch) {
        found->told_at_ns = now_ns();
    } else {
        engine_.disconnect(sender);
    }
}

}  // namespace railyard::flow
