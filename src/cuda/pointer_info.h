// What an address is to the driver, and whether a range of device memory may be registered.
#pragma once

#include <cstdint>
#include <string>

struct CUctx_st;

namespace railyard::cuda {

struct Driver;

enum class MemoryKind : std::uint8_t {
    unknown,         ///< nothing that the driver knows: plain host memory, or freed
    host,            ///< pinned host memory
    plain,           ///< cuMemAlloc, cudaMalloc
    pool,            ///< cuMemAllocAsync, cudaMallocAsync
    virtual_memory,  ///< cuMemCreate and cuMemMap: PyTorch's expandable segments, for one
    managed,         ///< cuMemAllocManaged: moves between host and device
};

[[nodiscard]] const char* to_string(MemoryKind kind) noexcept;

struct PointerInfo {
    MemoryKind kind = MemoryKind::unknown;
    int device = -1;           ///< ordinal
    std::uint64_t start = 0;   ///< of the allocation, or of the mappings that make up the range
    std::uint64_t length = 0;  ///< bytes
    unsigned mappings = 1;     ///< of virtual memory, one after the other
    bool gpu_direct_capable =
        false;  ///< NICs can reach it, as far as the driver says; it may have to be asked by trying
    std::uint64_t buffer_id = 0;  ///< unlike that of any other allocation of the process, before or after
    CUctx_st* context = nullptr;  ///< that allocated it; virtual memory and pools may have none
};

/// Asks the driver. Needs and changes no current context. For virtual memory [address, address + length) may
/// span mappings that adjoin, on one device; the result then covers all of them. Throws Error{backend} when
/// the driver fails.
[[nodiscard]] PointerInfo describe_range(const Driver& driver, std::uint64_t address, std::uint64_t length);

/// Throws with what is wrong and what to do: Error{invalid_param} when the range is no memory of the device
/// `ordinal` or leaves its allocation, Error{not_supported} for managed memory. Pure.
void require_device_range(const PointerInfo& info, std::uint64_t address, std::uint64_t length, int ordinal);

/// Asks the driver to end the program's synchronous copies and fills of this allocation before they return,
/// which programs count on whose memory somebody else moves; with a context current. Pools and virtual memory
/// refuse, which is no error: false.
bool set_sync_memops(const Driver& driver, std::uint64_t address) noexcept;

}  // namespace railyard::cuda
