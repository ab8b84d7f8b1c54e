// Locks in shared memory that a killed process of this host held.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fabric/endpoint_memory.h"
#include "fabric/peer_process.h"

namespace railyard::fabric {

/// The lock in the memory of one shm endpoint of another process: whoever posts to that endpoint takes it,
/// and so does its owner, who may be killed just then. One thread.
class EndpointLock {
  public:
    /// Nothing can be seen where nothing is of the memory (EndpointMemory): the address is none of shm, or
    /// libfabric is later than 2.1, whose endpoints have no such lock. Throws std::bad_alloc.
    explicit EndpointLock(const std::string& address) : memory_(address) {}

    [[nodiscard]] bool seen() const noexcept { return memory_.seen(); }
    [[nodiscard]] bool held() const noexcept;
    /// As who posts takes it; false where it is held.
    [[nodiscard]] bool try_take() noexcept;
    /// Whoever holds it. Only where that is nobody any more.
    void release() noexcept;

  private:
    EndpointMemory memory_;
};

/// As long as it lives: when the process ends and leaves locks behind, they are released, and calls into
/// libfabric that wait for them return. One thread of the process waits for all of them, without waking up.
class LockRescue {
  public:
    /// Does nothing where the process is not watched, or none of its endpoints' locks is seen. `addresses`:
    /// of its endpoints. Logs what cannot be set up.
    LockRescue(const PeerProcess& process, std::span<const std::string> addresses) noexcept {
        set_up(process, addresses);
    }
    ~LockRescue();
    LockRescue(const LockRescue&) = delete;
    LockRescue& operator=(const LockRescue&) = delete;

    /// The same again, where the process was not watched before.
    void set_up(const PeerProcess& process, std::span<const std::string> addresses) noexcept;
    [[nodiscard]] bool watches() const noexcept { return thread_ != nullptr; }

  private:
    class Thread;
    std::shared_ptr<Thread> thread_;
};

}  // namespace railyard::fabric
