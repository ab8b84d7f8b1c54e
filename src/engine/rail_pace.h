// Whether some rails carry far less than the others while all have as much to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace railyard {

/// Watches rails of one kind by what they have carried from look to look. One caller at a time.
class RailPace {
  public:
    /// A rail as it is found at one moment.
    struct Look {
        std::uint64_t carried = 0;    ///< bytes whose operations have ended well, ever
        std::uint64_t under_way = 0;  ///< bytes with the provider
        double weight = 1;            ///< of 1: it has so much less to do, because it is known to be slow
    };
    /// A rail that has changed, with what it and the others carried, in bytes a second while they had work.
    struct Change {
        std::size_t rail = 0;
        bool crawls = false;
        double rate = 0;
        double others = 0;
    };

    /// Under way: so much that its operations' latency is not what holds a rail up.
    static constexpr std::uint64_t busy_bytes = std::uint64_t{256} << 10;
    static constexpr std::size_t looks_in_window = 8;
    /// In a row, before anything is said.
    static constexpr std::size_t windows = 3;
    /// Of the rate of the others (their median) and back.
    static constexpr double crawling_share = 0.25, steady_share = 0.5;

    explicit RailPace(std::size_t rails = 0) : rails_(rails) {}

    /// One look at all rails, `looks` in their order. True when a window has ended with changes().
    bool look(std::span<const Look> looks, std::uint64_t now_ns);
    /// Nothing is in flight: time until the next look does not count.
    void pause() noexcept { started_at_ = 0; }
    [[nodiscard]] const std::vector<Change>& changes() const noexcept { return changes_; }
    /// Any thread may ask what it was told last.
    [[nodiscard]] bool crawls(std::size_t rail) const noexcept { return rails_[rail].crawls; }

  private:
    struct Watched {
        std::uint64_t carried_before = 0;
        std::size_t busy_looks = 0;
        double rate = 0;  ///< of the window
        [[nodiscard]] bool measured() const noexcept { return busy_looks > 0; }
        std::size_t in_a_row = 0;  ///< windows that say the opposite of `crawls`
        bool crawls = false;
    };
    void begin(std::span<const Look> looks, std::uint64_t now_ns) noexcept;
    double median_of_others(std::size_t rail);

    std::vector<Watched> rails_;
    std::vector<Change> changes_;
    std::vector<double> scratch_;
    std::uint64_t started_at_ = 0;  ///< ns; 0: no window is open
    std::size_t looks_ = 0;
};

}  // namespace railyard
