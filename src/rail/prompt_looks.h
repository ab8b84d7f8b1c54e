// Whether operations of a rail are over as soon as they have been posted.
#pragma once

#include <cstdint>

namespace railyard {

/// Where a provider has carried an operation out by the time its post returns (shm, and whatever copies
/// within the host), a look at the completion queue right after the post ends the transfer in post() itself,
/// which saves its caller a poll. Where it has not, that look costs time and finds nothing. Tried now and
/// then, and at each post for as long as it succeeds. Role holder only.
class PromptLooks {
  public:
    /// Posts to one trial while looks are of no use: what a look costs is not felt then.
    static constexpr std::uint32_t posts_between_trials = 64;

    /// After a post: it is to be looked now.
    [[nodiscard]] bool due() noexcept { return prompt_ || ++posts_ % posts_between_trials == 0; }
    /// After that look. `ended`: nothing was left with the provider.
    void looked(bool ended) noexcept { prompt_ = ended; }

  private:
    std::uint32_t posts_ = 0;
    bool prompt_ = false;
};

}  // namespace railyard
