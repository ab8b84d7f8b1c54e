// What lies at an address of a process, as the kernel lists it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace railyard {

struct Mapping {
    bool exists = false;
    bool readable = false;
    bool writable = false;
};

/// Reads /proc/PID/maps, which takes longer the more mappings there are; nullopt where we may not.
[[nodiscard]] std::optional<Mapping> mapping_at(pid_t process, std::uint64_t address) noexcept;

/// Memory of a kind that the kernel keeps from other processes, whether it has pages or not: of memfd_secret,
/// or what a driver has mapped of a device or of its own. Reads `smaps`, which may take long; false where
/// that cannot be read, or nothing lies there.
[[nodiscard]] bool is_kept(std::uint64_t address, const char* smaps) noexcept;
[[nodiscard]] bool is_kept_at(pid_t process, std::uint64_t address) noexcept;

/// Bytes of a page there, of this process: of huge pages that were asked for as such (MAP_HUGETLB), or where
/// all of the mapping that can be is in transparent ones; else of the usual ones. Reads `smaps`, which may
/// take long; the usual size where that cannot be read, or nothing lies there.
[[nodiscard]] std::uint64_t page_size_at(std::uint64_t address,
                                         const char* smaps = "/proc/self/smaps") noexcept;

}  // namespace railyard
