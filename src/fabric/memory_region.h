// Memory registered with one rail.
#pragma once

#include <rdma/fi_domain.h>

#include <cstdint>
#include <memory>

#include "common/memory_range.h"
#include "fabric/domain.h"
#include "fabric/endpoint.h"
#include "fabric/fid.h"

namespace railyard::fabric {

class MemoryRegion {
  public:
    MemoryRegion() = default;
    /// Registers the range for local use and for peers. Any thread. Throws Error{backend} with the remedy
    /// (locked memory limit, number of regions, the way to GPU memory), Error{not_supported} for GPU memory
    /// where the endpoint does not reach it, or refuses the dmabuf and is to go by nothing else.
    MemoryRegion(const Domain& domain, const Endpoint& endpoint, const MemoryRange& range);

    [[nodiscard]] void* descriptor() const noexcept { return region_ ? fi_mr_desc(region_.get()) : nullptr; }
    [[nodiscard]] std::uint64_t key() const noexcept { return key_; }
    /// What a peer subtracts from a pointer of ours to address it: 0 with virtual addressing, else the start.
    [[nodiscard]] std::uint64_t address_base() const noexcept { return address_base_; }
    explicit operator bool() const noexcept { return static_cast<bool>(region_); }

    bool kept = false;                        ///< Domain::keep_registered's
    std::shared_ptr<MemoryRegion> next_kept;  ///< the same

  private:
    Fid<fid_mr> region_;
    std::uint64_t key_ = 0;
    std::uint64_t address_base_ = 0;
};

}  // namespace railyard::fabric
