// A peer whose process is on this host: reached there, and seen to end.
#include <exception>
#include <new>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "engine/peer.h"
#include "rail/deferred_close.h"

namespace railyard {
namespace {

/// Bits of the clock below 0.13 s, the least time between tries to reach a peer on this host while we are
/// short of descriptors or memory: a peer has no eight bytes for that.
constexpr unsigned host_look_ticks = 27;

}  // namespace

PeerEndpoint* Peer::on_this_host() {
    const MutexLock lock(mutex_);
    if (looked_for_on_host_) return on_host_.get();
    const std::shared_ptr<RailManager> rails = rails_.lock();
    looked_for_on_host_ = !rails || !rails->host() || host_address_.empty();
    const auto now = static_cast<std::uint32_t>(now_ns() >> host_look_ticks);
    if (looked_for_on_host_ || now == std::exchange(looked_on_host_at_, now)) return nullptr;
    auto endpoint = std::make_unique<PeerEndpoint>();
    endpoint->rail = rails->host();
    try {
        endpoint->address = endpoint->rail->insert_peer(host_address_);
    } catch (const Error& error) {
        looked_for_on_host_ = error.status() != Status::backend;
        if (!looked_for_on_host_ && std::exchange(told_of_shortage_, true)) return nullptr;
        RAILYARD_LOG(info, agent().c_str(), "over the fabric, not within the host: %s", error.what());
        return nullptr;
    }
    on_host_ = std::move(endpoint);
    looked_for_on_host_ = true;
    if (HostPeerRail::process_at(on_host_->address).may_copy()) {
        RAILYARD_LOG(info, agent().c_str(), "on this host: its memory is written and read by the kernel");
    } else {
        RAILYARD_LOG(
            info, agent().c_str(),
            "on this host: only GPU memory goes past the fabric, as the kernel forbids process_vm_readv "
            "(kernel.yama.ptrace_scope or a seccomp filter); `railyard-info doctor` looks at both");
    }
    return on_host_.get();
}

bool Peer::has_ended_unseen() const noexcept {
    if (process_.ended()) return true;
    {
        const MutexLock lock(mutex_);
        if (on_host_ && on_host_->rail->has_ended(on_host_->address)) return true;
    }
    return process_.is_ours() && DeferredClose::has_closed(addresses_.at(0));
}

/// Which there were no descriptors or memory for when it was met.
void Peer::watch_process() noexcept {
    process_.look(addresses_.at(0));
    if (!process_.watched()) return;
    try {
        lock_rescue_.set_up(process_, addresses_.unpacked());
    } catch (const std::bad_alloc&) {
        RAILYARD_LOG(warn, agent().c_str(), "its locks will not be released if it is killed: out of memory");
    }
}

bool Peer::look_at_process() {
    if (process_.put_off()) watch_process();
    return has_ended_unseen();
}

void Peer::abandon() {
    fail_all();
    const std::shared_ptr<RailManager> rails = rails_.lock();
    if (!rails) return;
    const MutexLock lock(mutex_);
    for (const auto& endpoint : resolved_)
        endpoint->rail->abandon_peer(endpoint->address);
}

}  // namespace railyard
