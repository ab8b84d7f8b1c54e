// An allocation of a GPU as other processes of the host reach it: CUDA IPC.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "cuda/context_guard.h"

namespace railyard::cuda {

struct PointerInfo;

/// What another process needs to know of a whole allocation. Says nothing of whether it still exists.
struct SharedAllocation {
    std::array<char, 64> handle{};  ///< the driver's
    std::uint64_t start = 0;        ///< in the process that has allocated it
    std::uint64_t length = 0;       ///< bytes
    /// PointerInfo::buffer_id there: a handle may come again when the allocation has been freed.
    std::uint64_t buffer_id = 0;
    auto operator<=>(const SharedAllocation&) const = default;
};

struct ShareResult {
    std::optional<SharedAllocation> allocation;
    std::string absent_because;
};

/// Asks the driver for the handle of the allocation that `info` describes. None, with the reason, for memory
/// that has none: of a pool, or virtual memory. Throws nothing but std::bad_alloc; the caller's context does
/// not change.
[[nodiscard]] ShareResult share(const PrimaryContext& context, const PointerInfo& info);

/// Maps an allocation of another process, for the context's GPU; again gives the same place. `address`: where
/// it starts here. Empty, or the reason: the GPU that has it is not visible in this process, there is no way
/// from one GPU to the other, the allocation is gone, or is shorter than it is said to be. Takes the driver
/// some 100 us.
[[nodiscard]] std::string open_shared(const PrimaryContext& context, const SharedAllocation& allocation,
                                      std::uint64_t& address);
/// Once for each open_shared() that gave the address.
void close_shared(const PrimaryContext& context, std::uint64_t address) noexcept;

}  // namespace railyard::cuda
