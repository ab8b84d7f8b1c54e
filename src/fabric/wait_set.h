// What somebody who wants to sleep until there is work on a rail waits for.
#pragma once

#include "fabric/completion_queues.h"
#include "fabric/domain.h"

namespace railyard::fabric {

/// The completion queues, and where connections are made the event queue, too.
class WaitSet {
  public:
    WaitSet(const Domain& domain, CompletionQueues& queues);
    ~WaitSet();
    WaitSet(const WaitSet&) = delete;
    WaitSet& operator=(const WaitSet&) = delete;

    /// Becomes readable when there is work; -1 where the provider has no such thing.
    [[nodiscard]] int fd() const noexcept { return fd_; }
    /// True when blocking on it is safe now: everything has been drained. Role holder only.
    [[nodiscard]] bool may_wait() noexcept;
    /// The sender has another queue of its own. Role holder only.
    void watch_sent() noexcept;

  private:
    [[nodiscard]] int other_fd() const noexcept;

    const Domain& domain_;
    CompletionQueues& queues_;
    bool own_ = false;     ///< an epoll descriptor around two
    bool watches_ = true;  ///< all that there is
    int fd_ = -1;
};

}  // namespace railyard::fabric
