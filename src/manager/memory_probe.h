// What the process may do with a range of its own memory.
#pragma once

#include <cstdint>

namespace railyard {

/// Whether the process may write to [address, address + length): looks at the first and last page only. True
/// where the kernel cannot tell. Throws Error{backend} where that is for want of a file descriptor.
[[nodiscard]] bool is_writable(std::uint64_t address, std::uint64_t length);
/// Whether the first and last page are mapped at all.
[[nodiscard]] bool is_mapped(std::uint64_t address, std::uint64_t length) noexcept;

}  // namespace railyard
