// Which rails the lanes of a transfer are offered to, and what share of them each may take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/thread_tag.h"
#include "engine/callers.h"
#include "engine/transfer.h"

namespace railyard {

/// Hand-overs of one round: what offer_lanes() ends parts for.
[[nodiscard]] std::uint32_t count_submissions(const Transfer& transfer) noexcept;

void offer(Transfer& transfer, std::uint32_t route) noexcept;

struct OfferTerms {
    bool weighted = false;       ///< rails get shares of striped lanes by their weight; else all get the same
    bool may_keep = false;       ///< the calling thread makes passes, too, as who keeps rails must
    Callers* callers = nullptr;  ///< nullptr: striped lanes go to the rails of all
};

/// All lanes of an armed transfer.
void offer_lanes(Transfer& transfer, OfferTerms terms) noexcept;

struct RailChoice {
    std::size_t route = 0;
    bool own = false;     ///< the thread keeps its rail
    bool others = false;  ///< other threads keep some of the rest
};

/// For `chunks` that one of the routes is to carry: the one whose rail is through with them first, of those
/// that the thread keeps, unless others would be through much sooner. Failed ones only where all have.
/// Threads share the rails evenly: one that comes takes its share of them from those who keep more. Where
/// there are fewer rails than threads, who has none uses any. Any thread.
[[nodiscard]] RailChoice choose_rail(std::span<const Route> routes, std::uint32_t chunks, ThreadTag me,
                                     bool may_keep) noexcept;

/// Has keepers that have gone forgotten. Passes over all rails do that, too; but a thread whose transfers end
/// at its first polls makes none. Nor does it look then at those of its own rails that it has no use for,
/// which others would take for left: it does so here.
void look_at_keepers(std::span<const Route> routes, ThreadTag me) noexcept;

struct ShareTerms {
    bool weighted = false;          ///< by the rails' weights; else the same for all
    ThreadTag kept_by = no_thread;  ///< for the rails of that thread alone; no_thread: for all
};

/// Shares of one lane. Weights, paths and keepers may change meanwhile: one rail is chosen here that takes
/// whatever the others do not.
class LaneShares {
  public:
    LaneShares(std::span<const Submission> offered, ShareTerms terms) noexcept;
    /// Gives it its share; false: it is not to be offered, because its path has failed, or it is not one of
    /// those that are to carry it, or because even one chunk would end there after all the others have ended
    /// elsewhere.
    bool give(Submission& submission) const noexcept;

  private:
    [[nodiscard]] bool leaves_out(const Submission& submission) const noexcept;
    [[nodiscard]] std::uint32_t weight_of(const Submission& submission) const noexcept;

    const ShareTerms terms_;
    const Submission* last_resort_ = nullptr;  ///< nullptr: all paths have failed
    std::uint64_t sum_ = 0;                    ///< of the weights
    std::uint32_t most_ = 0, least_ = UINT32_MAX;
};

}  // namespace railyard
