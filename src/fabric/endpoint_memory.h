// The memory of a shm endpoint, as libfabric lays it out: what we look at and touch of it.
#pragma once

#include <string>

namespace railyard::fabric {

/// Its first page, mapped. One thread.
class EndpointMemory {
  public:
    /// Nothing is seen where the address is none of shm, its memory cannot be mapped, or is not laid out as
    /// libfabric 1.17 to 2.1 do it. Throws std::bad_alloc.
    explicit EndpointMemory(const std::string& address);
    ~EndpointMemory();
    EndpointMemory(EndpointMemory&& from) noexcept : memory_(from.memory_), lock_(from.lock_) {
        from.memory_ = nullptr;
        from.lock_ = nullptr;
    }
    EndpointMemory& operator=(EndpointMemory&&) = delete;

    [[nodiscard]] bool seen() const noexcept { return lock_ != nullptr; }
    /// That whoever posts to the endpoint takes: a pthread_spinlock_t. Null where nothing is seen.
    [[nodiscard]] int* lock() const noexcept { return lock_; }

    /// Whether libfabric has the kernel copy between this endpoint's process and others' (cross memory
    /// attach). It decides that once, with the first other that the endpoint meets, for all of them.
    /// False where nothing is seen.
    [[nodiscard]] bool copies_forbidden() const noexcept;
    /// From now on all goes through shared memory. Of an endpoint of this process, where it is seen.
    void forbid_copies() noexcept;

  private:
    void* memory_ = nullptr;
    int* lock_ = nullptr;
};

}  // namespace railyard::fabric
