// Memory known to the engine: ours on every rail, and what peers published.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rail/rail.h"

namespace railyard {

/// True when [address, address + length) lies in [start, start + size). Wrapping ranges never do.
[[nodiscard]] constexpr bool covers(std::uint64_t start, std::uint64_t size, std::uint64_t address,
                                    std::uint64_t length) noexcept {
    return address >= start && address - start <= size && length <= size - (address - start);
}

class Registration {
  public:
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint64_t device_id = 0;
    bool writable = true;                    ///< false: source of WRITEs and of peers' READs only
    std::vector<RegisteredMemory> per_rail;  ///< by rail index; empty for zero length
    std::atomic<bool> revoked{false};
};

class RemoteRegion {
  public:
    std::string agent;
    std::uint64_t nonce = 0;  ///< instance of the agent that published it
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    bool writable = true;
    std::vector<RemoteKey> keys;         ///< by the peer's rail index
    std::shared_ptr<Registration> self;  ///< set when it is our own memory
};

}  // namespace railyard
