// The bytes that transfers move, and what they are to look like.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "schedule.h"

namespace railyard::fault {

/// Fills with what nothing else has: no two keys give the same bytes.
void fill_pattern(std::span<std::uint8_t> bytes, std::uint64_t key) noexcept;
/// Key of a piece's data in one round of its transfer.
[[nodiscard]] std::uint64_t data_key(int transfer, std::size_t piece, int round) noexcept;

/// Where one piece of a transfer lies in a slot of memory.
struct Range {
    int transfer = 0;
    std::size_t piece = 0;
    std::size_t offset = 0;
    std::size_t length = 0;
    bool target = false;  ///< data arrives here
};

/// Memory that an engine registers as a whole. Every piece of every transfer has a place of its own, with
/// bytes around it that nobody is to touch.
struct Slot {
    void place(const TransferSpec& transfer, bool target);
    /// Once all is placed.
    void allocate(std::uint64_t key);
    [[nodiscard]] std::uint64_t address() const noexcept {
        return reinterpret_cast<std::uint64_t>(bytes.data());
    }
    [[nodiscard]] std::span<std::uint8_t> of(const Range& range) noexcept {
        return {bytes.data() + range.offset, range.length};
    }
    [[nodiscard]] std::span<std::uint8_t> expected_of(const Range& range) noexcept {
        return {expected.data() + range.offset, range.length};
    }
    /// Of one transfer's one side, in the order of its pieces.
    [[nodiscard]] std::vector<const Range*> ranges_of(int transfer, bool target) const;

    std::vector<Range> ranges;  ///< by offset
    std::vector<std::uint8_t> bytes, expected;
    std::shared_ptr<Registration> registration;  ///< nullptr: not registered now

  private:
    std::size_t end_ = 0;
};

}  // namespace railyard::fault
