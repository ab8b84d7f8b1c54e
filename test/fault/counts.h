// What the campaign counts, in memory that several processes share.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "common/status.h"
#include "rules.h"

namespace railyard::fault {

/// Ways to fail.
enum class Wrong : std::uint8_t {
    none,
    hang,
    bytes,         ///< SUCCESS or a notification, and not every byte is right
    guard,         ///< bytes changed that no transfer was to touch
    late_write,    ///< a target changed after its transfer's end was reported, or after it was deregistered
    error,         ///< a status that no fault explains
    lost,          ///< a notification did not come
    duplicate,     ///< came twice
    notification,  ///< came changed, from somebody else, or was never sent
    exception,     ///< a call threw what it is not to throw
    crash,
    count
};
[[nodiscard]] const char* to_string(Wrong wrong) noexcept;

struct Counts {
    std::atomic<std::uint64_t> seeds, steps, transfers, bytes, notifications;
    std::array<std::atomic<std::uint64_t>, 12> ends;  ///< of transfers, by Status
    std::array<std::atomic<std::uint64_t>, fault_count> faults;
    std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Wrong::count)> wrongs;
};

/// One line: everything, with the seconds it took.
[[nodiscard]] std::string to_text(const Counts& counts, double seconds);

}  // namespace railyard::fault
