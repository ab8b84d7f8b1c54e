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

}  // namespace railyard
