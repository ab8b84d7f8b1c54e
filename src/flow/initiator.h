// The sending side of flows.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/thread_role.h"
#include "flow/former_targets.h"
#include "flow/side.h"
#include "flow/target_info.h"
#include "flow/target_link.h"

namespace railyard::flow {

/// Any thread.
class Initiator final : private EngineChore {
  public:
    /// Throws Error, NoFabric.
    explicit Initiator(const SideConfig& config);
    /// Takes leave of the targets; waits (bounded) for what is under way.
    ~Initiator();

    /// False in a child of the process that made it: it is not even destroyed there.
    [[nodiscard]] bool own_process() const noexcept { return side_.own_process(); }
    /// Throws Error{not_allowed} there.
    void require_own_process() const { side_.require_own_process(); }
    /// Throws Error: invalid_param (regions), mismatch (provider), not_allowed (it is one already).
    void add_target(const TargetInfo& info);
    /// False: it is none.
    bool remove_target(const TargetInfo& info);
    /// All of them, and those that have gone since, which have not been added again, the latest of them.
    /// Throws std::bad_alloc.
    [[nodiscard]] std::vector<TargetReport> targets();
    /// `whole`: from the first slice to the last, whatever their number is. ok or not_ready. Throws Error:
    /// invalid_param, not_found (no target).
    Outcome transfer(std::uint32_t index, Slices slices);
    /// ok: nothing of it is under way. Throws Error{invalid_param}.
    Outcome grain_ready(std::uint32_t index);
    /// ok: nothing is left. not_ready; else disconnected or failed, once each, with `what`.
    Outcome make_progress(std::string& what);
    /// The same until something else than not_ready; timeout, interrupted.
    Outcome make_progress(std::uint32_t timeout_ms, std::string& what);

  private:
    /// Links that have been taken out, with what is under way to them. Ends that at its own end, which waits
    /// and must not be in the turn: others go on meanwhile.
    class Departures {
      public:
        explicit Departures(Initiator& initiator) noexcept : initiator_(initiator) {}
        ~Departures();
        Departures(const Departures&) = delete;
        Departures& operator=(const Departures&) = delete;

      private:
        friend Initiator;
        Initiator& initiator_;
        std::vector<const TargetLink*> links_;
        std::vector<Transfer*> handles_;
        std::list<FormerTarget> missed_;
    };

    bool run() noexcept override;

    void require_grain(std::uint32_t index) const;
    void require_targets() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
    /// Those slices of the grain are on their way to some target.
    [[nodiscard]] bool is_busy(std::uint32_t index, Slices slices) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
    /// Looks what has ended; true while something is left.
    bool drive(Departures& gone) ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
    Outcome step(std::string& what, Departures& gone) ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
    void read_letters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
    /// False: what was under way to it has not ended since it was taken out.
    bool add_unless_leaving(const TargetInfo& info);
    /// Takes leave of those targets; false: there are none. Throws std::bad_alloc, with nothing done.
    template <class Which>
    bool take_out(Which which, Departures& gone) ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
    /// Waits for it, not in the turn. The link's opening; nothing: there is no such target.
    std::optional<std::uint32_t> await_answer(const std::string& id);
    [[nodiscard]] TargetLink* find(const std::string& id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
    /// Who is late is left out, or given up.
    void expect_answers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
    void remove_the_lost(Departures& gone) ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);

    Side side_;
    FormerTargets former_;
    ThreadRole turn_;  ///< nearly always of one thread, which then needs no locked instruction for it
    std::vector<std::unique_ptr<TargetLink>> links_ ABSL_GUARDED_BY(turn_);
    /// Of Departures: what is under way to them still reads its grains.
    std::vector<std::unique_ptr<TargetLink>> leaving_ ABSL_GUARDED_BY(turn_);
    std::vector<SentSlices> sent_ ABSL_GUARDED_BY(turn_);  ///< by grain index
    std::uint32_t openings_ ABSL_GUARDED_BY(turn_) = 0;
    std::uint64_t answered_since_ns_ ABSL_GUARDED_BY(turn_) = 0;  ///< some target has; 0: none has
    std::list<std::string> lost_ ABSL_GUARDED_BY(turn_);          ///< targets, with the reason; to be told of
    std::list<TargetReport> gone_ ABSL_GUARDED_BY(turn_);
    std::vector<Notification> letters_ ABSL_GUARDED_BY(turn_);
};

}  // namespace railyard::flow
