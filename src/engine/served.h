// A peer's request on its way (ADR 11).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "engine/peer.h"
#include "engine/transfer.h"

namespace railyard {

struct Served {
    Transfer* transfer = nullptr;  ///< nullptr: it has ended, and there was no memory to say so
    std::shared_ptr<Peer> peer;
    std::uint64_t id = 0;
    std::uint64_t interrupt_at = UINT64_MAX;  ///< ns
    Status status = Status::in_progress;
    /// The transfer's Submission::late: what was given up of it and may still reach the asker's memory, which
    /// is its own again once it is answered.
    std::atomic<std::uint32_t> late{0};

    [[nodiscard]] bool is_under_way() const noexcept { return transfer && !transfer->done(); }
};

}  // namespace railyard
