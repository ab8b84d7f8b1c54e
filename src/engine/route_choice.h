// Which rails the lanes of a transfer are offered to, and what share of them each may take.
#pragma once

#include <cstdint>
#include <span>

#include "engine/transfer.h"

namespace railyard {

/// Hand-overs of one round: what offer_lanes() ends parts for.
[[nodiscard]] std::uint32_t count_submissions(const Transfer& transfer) noexcept;

void offer(Transfer& transfer, std::uint32_t route) noexcept;

/// All lanes of an armed transfer. `weighted`: rails get shares by their weight; else all get the same.
void offer_lanes(Transfer& transfer, bool weighted) noexcept;

/// Shares of one lane. Weights and paths may change meanwhile: one rail is chosen here that takes whatever
/// the others do not.
class LaneShares {
  public:
    LaneShares(std::span<const Submission> offered, bool weighted) noexcept;
    /// Gives it its share; false: it is not to be offered, because its path has failed, or because even one
    /// chunk would end there after all the others have ended elsewhere.
    bool give(Submission& submission) const noexcept;

  private:
    const Submission* last_resort_ = nullptr;  ///< nullptr: all paths have failed
    std::uint64_t sum_ = 0;                    ///< of the weights
    std::uint32_t most_ = 0, least_ = UINT32_MAX;
};

}  // namespace railyard
