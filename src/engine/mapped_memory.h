// GPU memory of peers on this host, as long as it is mapped here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/peer.h"
#include "manager/import_closer.h"
#include "manager/remote_share.h"

namespace railyard {

/// What is mapped keeps memory allocated that its owner has freed, and that of a process which has ended: so
/// each look of the engine's asks whose it is. Memory that its owner has deregistered, and that of peers who
/// are known no more, or not reached within the host, is let go of: transfers that were prepared with it keep
/// it until they are released. That of a process which has ended is closed whoever has it, once no copy of
/// ours is under way to it: none starts any more.
class MappedMemory {
  public:
    /// Of the engine's watch. `peers`: those that it knows.
    void look(std::span<const std::shared_ptr<Peer>> peers, const RailManager& rails, std::uint64_t now_ns);
    /// Any thread. Throws std::bad_alloc.
    [[nodiscard]] std::unique_ptr<RemoteShare> share(const Peer& owner, std::uint64_t word,
                                                     const cuda::SharedAllocation& allocation) const {
        return std::make_unique<RemoteShare>(shares_, owner.nonce(), word, allocation);
    }

  private:
    void look_at(Peer& peer, const RailManager& rails, std::uint64_t now_ns);

    const std::shared_ptr<RemoteShares> shares_ = std::make_shared<RemoteShares>();
    std::map<std::uint64_t, std::uint64_t>
        ended_;                                ///< ns, by instance: when that was seen, or that it is through
    std::vector<ImportPtr> dropped_, closed_;  ///< not yet with closer_
    ImportCloser closer_;
};

}  // namespace railyard
