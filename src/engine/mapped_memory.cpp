#include "engine/mapped_memory.h"

#include <algorithm>

#include "common/log.h"
#include "rail/host_peer_rail.h"

namespace railyard {
namespace {

/// Later than that no copy starts whose peer has ended.
constexpr std::uint64_t last_start_ns = 50'000'000;
/// Instead of when a process was seen to have ended: all of its memory has been closed.
constexpr std::uint64_t all_closed = UINT64_MAX;

}  // namespace

void MappedMemory::look(std::span<const std::shared_ptr<Peer>> peers, const RailManager& rails,
                        std::uint64_t now_ns) {
    if (!shares_->any()) return ended_.clear();
    std::vector<std::uint64_t> others = shares_->instances();
    std::erase_if(ended_, [&](const auto& ended) {
        return !std::binary_search(others.begin(), others.end(), ended.first);
    });
    for (const std::shared_ptr<Peer>& peer : peers) {
        const auto mapped = std::lower_bound(others.begin(), others.end(), peer->nonce());
        if (mapped == others.end() || *mapped != peer->nonce()) continue;
        others.erase(mapped);
        look_at(*peer, rails, now_ns);
    }
    for (const std::uint64_t instance : others)
        shares_->let_go(
            instance, [](std::uint64_t) { return false; }, dropped_);
    closer_.drop(dropped_);
    closer_.close(closed_);
}

void MappedMemory::look_at(Peer& peer, const RailManager& rails, std::uint64_t now_ns) {
    const auto known = ended_.find(peer.nonce());
    if (known != ended_.end() && known->second == all_closed) return;
    PeerEndpoint* const there = peer.on_this_host();
    if (!there) return;
    const HostProcess& process = HostPeerRail::process_at(there->address);
    if (const int error = process.look(); error != ESRCH) {
        const bool reached = !peer.gone() && !there->path.failed() && error == 0;
        return shares_->let_go(
            peer.nonce(), [&](std::uint64_t word) { return reached && process.vouches_for(word); }, dropped_);
    }
    there->path.fail();
    std::uint64_t& since = ended_.try_emplace(peer.nonce(), now_ns).first->second;
    if (now_ns - since < last_start_ns || rails.may_copy_for_the_ended()) return;
    const std::size_t before = closed_.size();
    shares_->give_up(peer.nonce(), closed_);
    since = all_closed;
    if (closed_.size() != before)
        RAILYARD_LOG(info, peer.agent().c_str(), "what was mapped of its GPU memory is closed: it has ended");
}

}  // namespace railyard
