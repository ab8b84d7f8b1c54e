// Parsing and printing of sizes.
#include "size_list.h"

#include <charconv>
#include <limits>
#include <stdexcept>

namespace railyard::bench {

namespace {

unsigned suffix_shift(char suffix) {
    switch (suffix) {
        case 'K':
        case 'k':
            return 10;
        case 'M':
        case 'm':
            return 20;
        case 'G':
        case 'g':
            return 30;
        default:
            return 0;
    }
}

std::uint64_t parse_positive(std::string_view text) {
    std::uint64_t value = parse_size(text);
    if (value == 0) throw std::invalid_argument("'" + std::string(text) + "': zero is not allowed here");
    return value;
}

}  // namespace

std::uint64_t parse_size(std::string_view text) {
    std::uint64_t value = 0;
    std::string_view digits = text;
    unsigned shift = text.empty() ? 0 : suffix_shift(text.back());
    if (shift != 0) digits.remove_suffix(1);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size()) {
        throw std::invalid_argument("'" + std::string(text) +
                                    "' is no size: want digits and at most one of K, M, G");
    }
    if (value > (std::numeric_limits<std::uint64_t>::max() >> shift)) {
        throw std::invalid_argument("'" + std::string(text) + "' is too large");
    }
    return value << shift;
}

std::vector<std::uint64_t> parse_size_list(std::string_view text) {
    std::vector<std::uint64_t> sizes;
    while (true) {
        std::size_t comma = text.find(',');
        std::string_view item = text.substr(0, comma);
        std::size_t colon = item.find(':');
        if (colon == std::string_view::npos) {
            sizes.push_back(parse_positive(item));
        } else {
            std::uint64_t low = parse_positive(item.substr(0, colon));
            std::uint64_t high = parse_positive(item.substr(colon + 1));
            if (low > high) throw std::invalid_argument("'" + std::string(item) + "' runs backwards");
            for (std::uint64_t size = low; size <= high; size *= 2) {
                sizes.push_back(size);
                if (size > high / 2) break;
            }
        }
        if (comma == std::string_view::npos) return sizes;
        text.remove_prefix(comma + 1);
    }
}

std::string format_size(std::uint64_t size) {
    for (auto [shift, suffix] : {std::pair{30u, 'G'}, std::pair{20u, 'M'}, std::pair{10u, 'K'}}) {
        if (size != 0 && size % (std::uint64_t{1} << shift) == 0)
            return std::to_string(size >> shift) + suffix;
    }
    return std::to_string(size);
}

}  // namespace railyard::bench
