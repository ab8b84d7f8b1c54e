// Registered memory of one domain, visible to all processes of the cluster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shared/layout.h"

namespace simefa {

struct Region {
    std::uint64_t base = 0;
    std::uint64_t length = 0;
    std::uint64_t alias = 0;  ///< where this process reaches the bytes; base for host memory
    std::uint64_t access = 0;
    /// Registered through a window of the GPU that leads nowhere from this NIC: operations get no answer.
    bool out_of_reach = false;
};

/// Adding and removing are for the domain's lock; looking up is for any thread while the region is not
/// removed.
class RegionTable {
  public:
    /// `record` must outlive this.
    explicit RegionTable(DomainRecord& record);

    /// Key of four bytes, never 0; 0: full. A key comes back only after 16383 other regions in its slot.
    std::uint32_t add(const Region& region);
    /// Returns when nobody copies to or from the region any more; a process that died meanwhile does not
    /// count. Ends the process where the protocol has operations that name it.
    void remove(std::uint32_t key) noexcept;

    /// The protocol of fabric efa has one more operation with that descriptor, which it reads until it has
    /// handed all of it to the device; returns the key. 0: none of ours.
    std::uint32_t hold(const void* descriptor) noexcept;
    void release(std::uint32_t key) noexcept;

    /// What fi_mr_desc gives for a key, and back. Neither a pointer nor valid in another domain.
    [[nodiscard]] void* descriptor(std::uint32_t key) const noexcept;
    /// Replaces application addresses by ones that can be reached. status_bad_local_key: no region of ours,
    /// or out of its bounds; status_unresponsive: out of reach. Ends the process for the descriptor of key 0,
    /// which stands for nothing (MemoryRegion).
    int resolve(const void* descriptor, Segment& segment) const noexcept;

    /// The same for a peer's request, carried out by our own progress: `whole` must lie in the region, `part`
    /// is replaced.
    bool resolve_remote(std::uint32_t key, std::uint64_t access, const Segment& whole,
                        Segment& part) const noexcept;

  private:
    DomainRecord& record_;
    const std::uint32_t serial_;
    std::vector<std::uint32_t> free_;
    struct Slot {
        std::uint16_t generation = 0;
        std::uint32_t held = 0;
    };
    std::vector<Slot> slots_;  ///< by index
};

}  // namespace simefa
