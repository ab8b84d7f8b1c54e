// Nobody is at work on a rail any more when the process takes its libraries down.
#pragma once

#include <cstdint>

#include "common/thread_role.h"

namespace railyard {

/// A role that is taken for good when the process exits, after atexit() functions and static destructors and
/// before libfabric's destructor (fi_fini): that gives the devices of providers back whoever is at work
/// there, and a thread that reads completions at that moment crashes (EFA, before libfabric 2.5). Who holds
/// the role is waited for; who wants it later waits until the process is gone. Any thread.
class RoleAtExit {
  public:
    /// `role` outlives it. Throws std::bad_alloc, in a process's first only.
    explicit RoleAtExit(ThreadRole& role);
    ~RoleAtExit();
    RoleAtExit(const RoleAtExit&) = delete;
    RoleAtExit& operator=(const RoleAtExit&) = delete;

  private:
    friend struct RolesAtExit;
    ThreadRole& role_;
    const std::uint32_t generation_;  ///< of the process
    RoleAtExit *previous_ = nullptr, *next_ = nullptr;
};

}  // namespace railyard
