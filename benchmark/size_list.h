// Lists of sizes and counts as the command line writes them: "8:16M" doubles from 8 to 16 MiB, "8,4K,1M"
// names each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace railyard::bench {

/// Unsigned decimal with an optional K, M or G (powers of 1024). Throws std::invalid_argument naming the
/// text.
std::uint64_t parse_size(std::string_view text);

/// Comma-separated sizes and LOW:HIGH ranges; a range doubles from LOW while it is at most HIGH. In the order
/// given. Throws std::invalid_argument for an empty list, a zero, or LOW above HIGH.
std::vector<std::uint64_t> parse_size_list(std::string_view text);

/// "8", "4K", "16M": exact where a suffix divides the value, else plain digits.
std::string format_size(std::uint64_t size);

}  // namespace railyard::bench
