// Nobody is at work on a rail any more when the process takes its libraries down.
#pragma once

#include <cstdint>

#include "common/thread_role.h"

namespace railyard {

/// A role that is kept when the process exits: after atexit() functions and static destructors (but those of
/// libraries that were linked to the program and loaded before this one is), and before libfabric's own
/// (fi_fini). That gives the devices of providers back whoever is at work there, and a thread that reads
/// completions at that moment crashes (EFA, libfabric #12475). Who holds the role is waited for; who wants it
/// later waits until the process is gone, but for the exiting thread itself (ThreadRole::try_keep). Any
/// thread.
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
    bool kept_ = false;
};

/// What the process's end does: keeps all of them that can be had within 0.5 s, each as soon as it is free.
void keep_roles_at_exit() noexcept;

}  // namespace railyard
