// What rails to other processes of this host have in common: what becomes of chunks that one cannot carry.
#pragma once

#include "rail/host_card.h"
#include "rail/rail.h"

namespace railyard {

/// A route's destination is the HostProcess, which the host rail keeps; keys are words of its card, with what
/// is to be added to its addresses, if anything. Rails over these share a path: where one finds that the
/// process is not reached any more, none is offered anything more to it.
class HostPeerRail : public Rail {
  public:
    [[nodiscard]] static HostProcess& process_at(PeerAddress address) noexcept {
        return *reinterpret_cast<HostProcess*>(address);
    }

  protected:
    using Rail::Rail;

    [[nodiscard]] RailCounters do_count() const noexcept override ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_) {
        return counters_;
    }
    [[nodiscard]] static HostProcess& process_of(const Route& route) noexcept {
        return process_at(route.destination);
    }
    /// The next chunk of its run: the peer does not vouch for it (any more), or it is not there.
    void refuse(Submission& submission) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    /// The process is not reached any more, for `error` of HostProcess::look(). Where it has ended, so does
    /// what is left of the submission; else that leaves.
    void lose(Submission& submission, int error) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    /// What is left of it ends.
    void disconnect(Submission& submission) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    /// Over another rail: what was taken, whole chunks of it, and what is left of the lane.
    void leave(Submission& submission) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(role_);
    /// Says once that the path has failed.
    void fail_path(const Route& route, int error) noexcept;

    RailCounters counters_ ABSL_GUARDED_BY(role_);
};

}  // namespace railyard
