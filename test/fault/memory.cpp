#include "memory.h"

#include <algorithm>
#include <cstring>

#include "random.h"

namespace railyard::fault {
namespace {

constexpr std::size_t least_gap = 8;  // bytes between two pieces

}  // namespace

void fill_pattern(std::span<std::uint8_t> bytes, std::uint64_t key) noexcept {
    Random random(key);
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
        const std::uint64_t word = random.next();
        std::memcpy(bytes.data() + at, &word, std::min(sizeof(word), bytes.size() - at));
    }
}

std::uint64_t data_key(int transfer, std::size_t piece, int round) noexcept {
    const auto number = static_cast<std::uint64_t>(transfer) << 40 | static_cast<std::uint64_t>(piece) << 20 |
                        static_cast<std::uint64_t>(round);
    return Random(number ^ 0x6461746100000000ULL).next();
}

void Slot::place(const TransferSpec& transfer, bool target) {
    for (std::size_t piece = 0; piece < transfer.sizes.size(); ++piece) {
        // Odd places, so that alignment is nothing to rely on.
        end_ += least_gap + static_cast<std::size_t>(data_key(transfer.id, piece, target ? 1 : 0) % 56);
        ranges.push_back({transfer.id, piece, end_, transfer.sizes[piece], target});
        end_ += transfer.sizes[piece];
    }
}

void Slot::allocate(std::uint64_t key) {
    bytes.resize(end_ + 4096);
    fill_pattern(bytes, key);
    expected = bytes;
}

std::vector<const Range*> Slot::ranges_of(int transfer, bool target) const {
    std::vector<const Range*> found;
    for (const Range& range : ranges) {
        if (range.transfer == transfer && range.target == target) found.push_back(&range);
    }
    return found;
}

}  // namespace railyard::fault
