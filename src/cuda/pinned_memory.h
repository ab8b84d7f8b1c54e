// Pinned host memory that every device of the process can reach.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/context_guard.h"

namespace railyard::cuda {

/// Zeroed. Lies on the NUMA node that the calling thread's policy chooses. Freeing waits for the device's
/// work: end what uses the memory first.
class PinnedMemory {
  public:
    /// `bytes` > 0. Throws Error{backend}. Slow, some 100 us a MiB on a real device: not for the data path.
    PinnedMemory(ContextPtr context, std::size_t bytes);
    ~PinnedMemory();
    PinnedMemory(const PinnedMemory&) = delete;
    PinnedMemory& operator=(const PinnedMemory&) = delete;

    [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(pointer_); }
    [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
    /// What a stream or a kernel uses for data().
    [[nodiscard]] std::uint64_t device_address() const noexcept { return device_address_; }

  private:
    ContextPtr context_;
    std::size_t bytes_;
    void* pointer_ = nullptr;
    std::uint64_t device_address_ = 0;
};

}  // namespace railyard::cuda
