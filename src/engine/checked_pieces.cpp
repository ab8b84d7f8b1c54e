#include "engine/checked_pieces.h"

#include <cstdio>
#include <unordered_map>

namespace railyard {
namespace {

std::string describe(std::uint64_t address, std::uint64_t length) {
    char text[64];
    std::snprintf(text, sizeof(text), "[0x%llx, +%llu)", static_cast<unsigned long long>(address),
                  static_cast<unsigned long long>(length));
    return text;
}

/// Gives each distinct region of a transfer a small index. Neighbouring descriptors mostly share one.
template <class Region>
class RegionIndex {
  public:
    RegionIndex(std::vector<std::shared_ptr<Region>>& regions, Pinned& pinned)
        : regions_(regions), pinned_(pinned) {}
    /// `check(region)` is called where the last one was another.
    template <class Check>
    std::uint32_t of(const std::shared_ptr<Region>& region, Check&& check) {
        if (region.get() == last_) return last_index_;
        check(*region);
        const auto [entry, added] = known_.emplace(region.get(), static_cast<std::uint32_t>(regions_.size()));
        if (added) {
            regions_.push_back(region);
            pinned_.add(region);
        }
        last_ = region.get();
        last_index_ = entry->second;
        return last_index_;
    }

  private:
    std::vector<std::shared_ptr<Region>>& regions_;
    Pinned& pinned_;
    std::unordered_map<const Region*, std::uint32_t> known_;
    const Region* last_ = nullptr;
    std::uint32_t last_index_ = 0;
};

[[noreturn]] void refuse(std::size_t index, const char* side, const std::string& reason) {
    throw Error(Status::invalid_param, "descriptor " + std::to_string(index) + ", " + side + " " + reason);
}

template <class Descriptor>
void check_range(std::size_t index, const char* side, const Descriptor& descriptor) {
    if (!descriptor.region || !*descriptor.region) refuse(index, side, "memory is not registered");
    const auto& region = **descriptor.region;
    if (covers(region.address, region.length, descriptor.address, descriptor.length)) return;
    refuse(index, side,
           "range " + describe(descriptor.address, descriptor.length) + " is outside its registration " +
               describe(region.address, region.length));
}

void check_local(std::size_t index, const Registration& region) {
    if (region.revoked.load(std::memory_order_acquire)) refuse(index, "local", "memory was deregistered");
}

void check_remote(std::size_t index, const RemoteRegion& region, const std::string& agent, const Peer* peer) {
    if (region.agent != agent) refuse(index, "remote", "memory belongs to agent \"" + region.agent + "\"");
    if (peer && region.nonce != peer->nonce()) {
        throw Error(Status::remote_disconnect,
                    "descriptor " + std::to_string(index) + ", remote memory of agent \"" + agent +
                        "\" belongs to an earlier instance: load its current metadata");
    }
    if (region.self && region.self->revoked.load(std::memory_order_acquire)) {
        refuse(index, "remote", "memory was deregistered");
    }
}

void check_writable(std::size_t index, const LocalDescriptor& local, const RemoteDescriptor& remote,
                    bool reads) {
    if (local.length == 0) return;
    if (reads && !(*local.region)->writable)
        refuse(index, "local", "memory is read-only: a READ cannot put data there");
    if (!reads && !(*remote.region)->writable)
        refuse(index, "remote", "memory is read-only: a WRITE cannot put data there");
}

}  // namespace

std::vector<Piece> checked_pieces(Transfer& transfer, std::span<const LocalDescriptor> local,
                                  std::span<const RemoteDescriptor> remote, const std::string& agent,
                                  Pinned& pinned) {
    if (local.size() != remote.size()) {
        throw Error(Status::invalid_param, std::to_string(local.size()) + " local descriptors against " +
                                               std::to_string(remote.size()) + " remote ones");
    }
    std::vector<Piece> pieces;
    pieces.reserve(local.size());
    RegionIndex<Registration> locals(transfer.locals, pinned);
    RegionIndex<RemoteRegion> remotes(transfer.remotes, pinned);
    const Peer* const peer = transfer.peer.get();
    const bool reads = transfer.kind == Work::Kind::read;
    for (std::size_t i = 0; i < local.size(); ++i) {
        const LocalDescriptor& from = local[i];
        const RemoteDescriptor& to = remote[i];
        check_range(i, "local", from);
        const auto local_region = locals.of(*from.region, [&](auto& region) { check_local(i, region); });
        check_range(i, "remote", to);
        const auto remote_region =
            remotes.of(*to.region, [&](auto& region) { check_remote(i, region, agent, peer); });
        if (from.length != to.length) {
            throw Error(Status::invalid_param, "descriptor " + std::to_string(i) + ": " +
                                                   std::to_string(from.length) + " bytes locally against " +
                                                   std::to_string(to.length) + " remotely");
        }
        check_writable(i, from, to, reads);
        pieces.push_back({from.address, to.address, from.length, local_region, remote_region});
    }
    return pieces;
}

}  // namespace railyard
