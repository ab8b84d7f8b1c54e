// Where the processes of a group meet: they get their ranks there, and what each says reaches all others.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "group/group_options.h"

namespace railyard::bench {

/// One process's end of it, once everybody has arrived. One thread at a time. What throws throws Failure,
/// which names who has not arrived, has gone, or has failed and why; after that the group is of no more use.
/// The destructor without leave() is a death that the others learn of.
class Rendezvous {
  public:
    virtual ~Rendezvous() = default;

    [[nodiscard]] virtual unsigned rank() const noexcept = 0;
    /// What each rank is: "host NAME, process PID".
    [[nodiscard]] virtual const std::vector<std::string>& members() const noexcept = 0;

    /// Everybody's value, by rank, as soon as all have given theirs for `phase`; blocks for `limit` at most.
    /// Everybody goes through the same phases, in the same order; a name is used once.
    [[nodiscard]] virtual std::vector<std::string> exchange(const std::string& phase,
                                                            const std::string& value,
                                                            std::chrono::milliseconds limit) = 0;
    /// Throws where it is known that the group will not go on. Does not block.
    virtual void check() = 0;
    /// What is not as it should be and may yet pass, of which the group has not ended; "" for nothing.
    [[nodiscard]] virtual std::string doubt() const { return ""; }
    /// The others end with this reason.
    virtual void fail(const std::string& reason) noexcept = 0;
    /// After the last exchange: the others no longer miss this process.
    virtual void leave() noexcept = 0;
};

/// Meets the others at GroupOptions::rendezvous, within `timeout`. Throws Failure.
[[nodiscard]] std::unique_ptr<Rendezvous> meet(const GroupOptions& options,
                                               std::chrono::milliseconds timeout);

/// "host NAME, process PID" of this process.
[[nodiscard]] std::string own_name();
/// "rank 5 of 8 has not reached VERIFIED within 30 s; ..." of one or many ranks.
[[nodiscard]] std::string missing_text(const std::vector<unsigned>& ranks, unsigned world,
                                       const std::string& what, std::chrono::milliseconds limit);
/// "rank 5 (host NAME, process PID) has gone".
[[nodiscard]] std::string gone_text(unsigned rank, const std::vector<std::string>& members);

}  // namespace railyard::bench
