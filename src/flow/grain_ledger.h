// What has arrived of the grains of one source.
#pragma once

#include <cstdint>
#include <vector>

#include "flow/geometry.h"

namespace railyard::flow {

/// Collects units, in any order, of each grain's latest round; what comes twice counts once, and what comes
/// after a later round has begun is dropped. Not for several threads.
class GrainLedger {
  public:
    explicit GrainLedger(const GrainGeometry& geometry);

    [[nodiscard]] const GrainGeometry& geometry() const noexcept { return geometry_; }
    /// True: now the grain is all there. Names that the geometry does not have are dropped.
    bool take(const UnitName& name) noexcept;
    /// Rounds of the grain that were begun.
    [[nodiscard]] std::uint64_t round(std::uint32_t index) const noexcept { return grains_[index].round; }
    /// Rounds that were begun, or must have been, and were not all there when a later one began.
    [[nodiscard]] std::uint64_t lost() const noexcept { return lost_; }

  private:
    struct Grain {
        std::uint64_t round = 0;
        std::uint32_t missing = 0;  ///< units
    };
    /// False: of an earlier round.
    bool turn_to(Grain& grain, std::uint32_t index, std::uint32_t round) noexcept;

    const GrainGeometry geometry_;
    const std::uint32_t units_;
    const std::uint32_t words_;  ///< of arrived_, a grain
    std::vector<Grain> grains_;
    std::vector<std::uint64_t> arrived_;  ///< a bit a unit
    std::uint64_t lost_ = 0;
};

}  // namespace railyard::flow
