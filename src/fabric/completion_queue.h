// The completion queue of one rail: the only reader of completions.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include <cstddef>

#include "fabric/domain.h"
#include "fabric/fid.h"

namespace railyard::fabric {

class CompletionQueue {
  public:
    /// `depth` is the number of operations that may be outstanding on it. `blocking`: open it with a file
    /// descriptor to wait for, where the provider has that.
    CompletionQueue(const Domain& domain, std::size_t depth, bool blocking);

    /// Ends up to about `limit` operations through OpContext::complete_with; returns how many. This call also
    /// drives providers that progress manually. Role holder only.
    std::size_t drain(std::size_t limit) noexcept;

    /// File descriptor that becomes readable when drain has work; -1 where the provider has none.
    [[nodiscard]] int wait_fd() const noexcept { return wait_fd_; }
    /// True when blocking on wait_fd is safe now: everything has been drained. Role holder only.
    [[nodiscard]] bool may_wait() noexcept;

    [[nodiscard]] fid_cq* get() const noexcept { return queue_.get(); }

  private:
    void complete_error() noexcept;

    const Domain& domain_;
    bool is_efa_ = false;
    int wait_fd_ = -1;
    Fid<fid_cq> queue_;
};

}  // namespace railyard::fabric
