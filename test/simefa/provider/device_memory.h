// The simulated NIC's way to memory of a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simefa {

/// Where this process can reach `length` bytes of device memory at `address`, found by asking the CUDA driver
/// that is loaded for `void* fakecuda_alias(unsigned long long address, size_t length)`. 0: no such call (a
/// real driver, or none), or it does not know the range.
std::uint64_t device_alias(std::uint64_t address, std::size_t length) noexcept;

/// Maps a dma-buf of that driver's, whose descriptors are no files with the bytes in them, by
/// `void* fakecuda_map_dmabuf(int fd, size_t offset, size_t length)`; for munmap. `offset` is a page's.
/// nullptr: no such call, or a descriptor of somebody else; MAP_FAILED: there is no such memory.
void* map_device_dmabuf(int fd, std::size_t offset, std::size_t length) noexcept;

/// Whether a NIC below `bridge` (NicDescription) reaches what is behind a dma-buf of that driver's, by
/// `unsigned fakecuda_dmabuf_window(int fd, unsigned long long* bridge)`: of a GPU with two windows, BAR1
/// from below the same bridge, the other one from elsewhere. True where the driver says nothing of windows.
bool is_window_for(int fd, std::uint64_t bridge) noexcept;

}  // namespace simefa
