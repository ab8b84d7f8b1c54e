// How the kernel sends over connections that do not leave this host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace railyard::fabric {

/// Takes connections over the loopback interface from a congestion control that paces them (BBR, where that
/// is the kernel's default) to one that does not (Reno, which every kernel has and allows to everybody):
/// there is no path to measure, and the pauses cost a third of the rate. One rail's; its role's holder only.
class LoopbackConnections {
  public:
    /// For an endpoint of that name(), which listens: what it accepts is made as it is. Does nothing unless
    /// it `stays_on_host`; nor does anything else here, then. Throws std::bad_alloc.
    LoopbackConnections(bool stays_on_host, const std::string& name);

    /// Some will be made: somebody writes to a new peer, or from a new endpoint. `carried`: bytes that the
    /// rail ever has.
    void expect(std::uint64_t carried) noexcept {
        looks_ = stays_on_host_ ? most_looks : 0;
        next_ = carried + 1;
    }
    [[nodiscard]] bool expects() const noexcept { return looks_ != 0; }
    /// Since then so many bytes have gone that looking for them pays.
    [[nodiscard]] bool due(std::uint64_t carried) const noexcept { return looks_ != 0 && carried >= next_; }
    /// Those to `peers` (raw socket addresses). Throws std::bad_alloc.
    void look(const std::vector<std::string>& peers, std::uint64_t carried);

  private:
    static constexpr int most_looks = 6;
    /// The first two looks; between later ones twice as many each.
    static constexpr std::uint64_t bytes_between = 64 << 10;

    const bool stays_on_host_;
    int looks_ = 0;  ///< left
    std::uint64_t next_ = 0;
};

}  // namespace railyard::fabric
