// A peer's paths: which answer, which have failed, and which its messages take.
#include <algorithm>
#include <utility>

#include "common/log.h"
#include "engine/peer.h"
#include "manager/rail_manager.h"

namespace railyard {
namespace {

/// A path that has failed is tried again so much later, and then in steps that double up to the second.
constexpr std::uint16_t first_probe_ms = 50, longest_probe_ms = 1000;
constexpr std::uint64_t ns_a_ms = 1'000'000;

}  // namespace

void Peer::compare_paths(std::uint64_t now_ns, std::uint64_t limit_ns, std::vector<PeerEndpoint*>& to_probe) {
    const MutexLock lock(mutex_);
    std::uint64_t last_answer = 0;
    for (const auto& endpoint : resolved_)
        last_answer = std::max(last_answer, endpoint->answered_at);
    for (const auto& endpoint : resolved_) {
        if (endpoint->path.failed() || now_ns - endpoint->asked_at < limit_ns) continue;
        if (!endpoint->probing) {
            to_probe.push_back(&ask(*endpoint, now_ns));
        } else if (last_answer > endpoint->asked_at && last_answer != endpoint->answered_at &&
                   endpoint->path.fail()) {
            RAILYARD_LOG(warn, agent().c_str(), "answers on other rails and not on %s: it is left alone",
                         endpoint->rail->name().c_str());
            endpoint->rail->request_renewal();
        }
    }
}

PeerEndpoint& Peer::ask(PeerEndpoint& endpoint, std::uint64_t now_ns) noexcept {
    endpoint.probing = true;
    if (!endpoint.excused) endpoint.asked_at = now_ns;
    return endpoint;
}

Peer::Health Peer::look_at_paths(std::uint64_t now_ns, std::uint64_t patience_ns,
                                 std::vector<PeerEndpoint*>& to_probe) {
    const MutexLock lock(mutex_);
    Health health;
    bool fresh = std::exchange(ask_all_, false);
    const bool wanted = wanted_back_.exchange(false, std::memory_order_relaxed);
    for (const auto& endpoint : resolved_) {
        ++health.paths;
        if (!endpoint->path.failed()) {
            health.overdue += endpoint->probing && now_ns - endpoint->asked_at > patience_ns ? 1 : 0;
            continue;
        }
        ++health.failed;
        health.dead += endpoint->confirmed ? 1 : 0;
        if (endpoint->probe_pause_ms != 0) continue;
        fresh = endpoint->may_be_held_up = true;
        endpoint->probe_pause_ms = first_probe_ms / 2;
        endpoint->probe_at = now_ns;
    }
    for (const auto& endpoint : resolved_) {
        const bool failed = endpoint->path.failed();
        endpoint->path.leave(failed && health.failed < health.paths);
        if (!failed) endpoint->probe_pause_ms = 0;
        if (wanted && endpoint->probe_pause_ms > first_probe_ms) {
            endpoint->probe_at -= (endpoint->probe_pause_ms - first_probe_ms) * ns_a_ms;
            endpoint->probe_pause_ms = first_probe_ms;
        }
        endpoint->confirmed = endpoint->confirmed && failed;
        const bool due = failed ? endpoint->probe_at <= now_ns : fresh;
        if (endpoint->probing || !(due || endpoint->ask_again)) continue;
        endpoint->ask_again = false;
        to_probe.push_back(&ask(*endpoint, now_ns));
    }
    return health;
}

void Peer::find_held_up(std::uint64_t now_ns, std::uint64_t limit_ns, std::vector<Rail*>& rails) {
    const std::shared_ptr<RailManager> manager = rails_.lock();
    if (!manager || manager->needs_introduction()) return;  // there each message goes by itself
    const MutexLock lock(mutex_);
    for (const auto& endpoint : resolved_) {
        if (!endpoint->may_be_held_up || !endpoint->probing || now_ns - endpoint->asked_at < limit_ns)
            continue;
        endpoint->may_be_held_up = false;
        rails.push_back(endpoint->rail);
    }
}

void Peer::ask_all() {
    const MutexLock lock(mutex_);
    ask_all_ = true;
    for (const auto& endpoint : resolved_)
        endpoint->ask_again = true;  // an answer that is awaited now may be to what was sent before
}

bool Peer::is_to_be_asked() const {
    const MutexLock lock(mutex_);
    return ask_all_ || std::any_of(resolved_.begin(), resolved_.end(),
                                   [](const auto& endpoint) { return endpoint->ask_again; });
}

bool Peer::has_doubts() const {
    const MutexLock lock(mutex_);
    return std::any_of(resolved_.begin(), resolved_.end(),
                       [](const auto& endpoint) { return endpoint->path.is_doubted(); });
}

bool Peer::has_failures() const {
    const MutexLock lock(mutex_);
    return std::any_of(resolved_.begin(), resolved_.end(),
                       [](const auto& endpoint) { return endpoint->path.failed(); });
}

bool Peer::has_answered(std::uint64_t since_ns) const {
    const MutexLock lock(mutex_);
    return std::any_of(resolved_.begin(), resolved_.end(),
                       [&](const auto& endpoint) { return endpoint->answered_at > since_ns; });
}

bool Peer::renew_senders() {
    const MutexLock lock(mutex_);
    bool renewed = false;
    for (const auto& endpoint : resolved_) {
        renewed = endpoint->rail->request_renewal() || renewed;
    }
    return renewed;
}

void Peer::fail_all() {
    const MutexLock lock(mutex_);
    for (const auto& endpoint : resolved_) {
        endpoint->path.fail();
        endpoint->confirmed = true;
    }
}

void Peer::probed(PeerEndpoint& endpoint, bool answered, bool confirms, std::uint64_t now_ns) {
    const MutexLock lock(mutex_);
    endpoint.probing = endpoint.excused = false;
    if (answered) {
        endpoint.answered_at = now_ns;
        endpoint.may_be_held_up = false;
        endpoint.probe_pause_ms = 0;
        endpoint.path.heal();
        return;
    }
    endpoint.may_be_held_up = true;
    ask_all_ = endpoint.path.fail() || ask_all_;
    if (!confirms) return;  // the next look has it probed
    endpoint.confirmed = true;
    endpoint.probe_pause_ms = static_cast<std::uint16_t>(
        std::clamp<unsigned>(endpoint.probe_pause_ms * 2u, first_probe_ms, longest_probe_ms));
    endpoint.probe_at = now_ns + endpoint.probe_pause_ms * ns_a_ms;
}

void Peer::probe_again(PeerEndpoint& endpoint, std::uint64_t now_ns) {
    const bool again = waits_to_close();
    const MutexLock lock(mutex_);
    endpoint.probing = endpoint.excused = false;
    endpoint.probe_at = now_ns;
    endpoint.ask_again = again;
}

bool Peer::excuse(PeerEndpoint& endpoint, std::uint64_t now_ns, std::uint64_t patience_ns) {
    const bool again = waits_to_close();
    const MutexLock lock(mutex_);
    if (now_ns - endpoint.asked_at >= patience_ns) return false;
    endpoint.probing = false;
    endpoint.excused = true;
    endpoint.probe_at = now_ns;
    endpoint.ask_again = again;
    return true;
}

/// Then a question that was lost with its sender may be what another sender waits to hear the answer of,
/// also where the path is well.
bool Peer::waits_to_close() const {
    const std::shared_ptr<RailManager> manager = rails_.lock();
    return manager && manager->waits_to_close();
}

DueKeepalive Peer::due_keepalive(std::uint64_t now_ns, std::uint64_t interval_ns, bool known_alone) {
    const MutexLock lock(mutex_);
    PeerEndpoint* const control = control_.load(std::memory_order_relaxed);
    if (!control || control->probing || control->path.failed() || now_ns - pinged_at_ < interval_ns)
        return {};
    const bool is_first = control->answered_at == 0 && !reached.load(std::memory_order_relaxed);
    if (known_alone && is_first) return {};
    pinged_at_ = now_ns;
    return {&ask(*control, now_ns), is_first};
}

bool Peer::choose_control_route() {
    const std::shared_ptr<RailManager> rails = rails_.lock();
    if (!rails) return false;
    std::vector<RailPair> pairs = rails->pairs_with(all_);
    // What it asks us may come on others, and the answer is to find a way.
    const std::vector<RailPair> back = rails->pairs_from(all_);
    pairs.insert(pairs.end(), back.begin(), back.end());
    {
        const MutexLock lock(mutex_);
        for (const Admitted& sender : admitted_)
            pairs.push_back(sender.pair);
    }
    for (const RailPair pair : pairs) {
        PeerEndpoint* endpoint = nullptr;
        try {
            endpoint = &resolve(pair);
        } catch (const Error& error) {
            RAILYARD_LOG(debug, agent().c_str(), "one path is missing: %s", error.what());
            continue;
        }
        if (endpoint->path.failed()) continue;
        const MutexLock lock(mutex_);
        control_.store(endpoint, std::memory_order_release);
        return true;
    }
    return false;
}

}  // namespace railyard
