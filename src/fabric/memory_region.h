// Memory registered with one rail.
#pragma once

#include <rdma/fi_domain.h>

#include <cstdint>

#include "fabric/domain.h"
#include "fabric/endpoint.h"
#include "fabric/fid.h"

namespace railyard::fabric {

class MemoryRegion {
  public:
    enum class Access { read_write, read_only };

    MemoryRegion() = default;
    /// Registers [address, address + length), length > 0, for local use and for peers. Any thread. Throws
    /// Error{backend} with the remedy (locked memory limit, number of regions).
    MemoryRegion(const Domain& domain, const Endpoint& endpoint, std::uint64_t address, std::uint64_t length,
                 Access access);

    [[nodiscard]] void* descriptor() const noexcept { return region_ ? fi_mr_desc(region_.get()) : nullptr; }
    [[nodiscard]] std::uint64_t key() const noexcept { return key_; }
    /// What a peer subtracts from a pointer of ours to address it: 0 with virtual addressing, else the start.
    [[nodiscard]] std::uint64_t address_base() const noexcept { return address_base_; }
    explicit operator bool() const noexcept { return static_cast<bool>(region_); }

  private:
    Fid<fid_mr> region_;
    std::uint64_t key_ = 0;
    std::uint64_t address_base_ = 0;
};

}  // namespace railyard::fabric
