// What is measured and what must be in memory afterwards: the points, where their blocks lie, their contents
// and guards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host/agent.h"
#include "options.h"

namespace railyard::bench {

/// Where the blocks of one point lie in the memory of either side: `window` slots of `batch` blocks, each
/// block with guard bytes before and behind it. Blocks of a page or more begin on a page.
struct Layout {
    std::uint64_t size = 0;  ///< bytes of a block
    unsigned batch = 1;      ///< blocks (descriptors) of one transfer
    unsigned window = 1;     ///< transfers outstanding

    static constexpr std::uint64_t guard = 64;

    [[nodiscard]] std::uint64_t lead() const noexcept;
    [[nodiscard]] std::uint64_t stride() const noexcept;
    [[nodiscard]] std::uint64_t offset(unsigned slot, unsigned block) const noexcept {
        return lead() + (std::uint64_t{slot} * batch + block) * stride();
    }
    [[nodiscard]] std::uint64_t bytes() const noexcept {
        return lead() + std::uint64_t{window} * batch * stride();
    }
    /// bytes() are no more than these, whatever somebody else has made of the numbers.
    [[nodiscard]] bool fits(std::uint64_t room) const noexcept;
};

/// One row of the table.
struct Point {
    host::Op op = host::Op::write;
    Layout layout;
    bool notify = false;
    unsigned index = 0;
};

[[nodiscard]] const char* to_string(host::Op op) noexcept;
/// "write of 4K, batch 16, window 8, notify on": how messages name a point.
[[nodiscard]] std::string describe(const Point& point);

/// Every combination asked for, operation first, then notification, batch, size. The window of a point is cut
/// down to what Options::memory holds; throws std::invalid_argument where one transfer alone exceeds it.
[[nodiscard]] std::vector<Point> make_points(const Options& options);
/// Bytes that the largest of the points needs.
[[nodiscard]] std::uint64_t memory_needed(std::span<const Point> points);

/// Writes the blocks of a source: every block has contents of its own, made of `seed` and its number.
void fill_source(std::span<std::byte> memory, const Layout& layout, std::uint64_t seed);
/// Writes the inverse of what is to arrive, so that each byte which does not arrive is seen, and guards.
void scrub_destination(std::span<std::byte> memory, const Layout& layout, std::uint64_t seed);
/// What is wrong with the blocks and guards of one slot; nothing when all is right.
[[nodiscard]] std::optional<std::string> check_slot(std::span<const std::byte> memory, const Layout& layout,
                                                    std::uint64_t seed, unsigned slot);
/// The same for all slots.
[[nodiscard]] std::optional<std::string> check_destination(std::span<const std::byte> memory,
                                                           const Layout& layout, std::uint64_t seed);

/// Changes a byte of the last block, or of the guard behind it: what --corrupt data and guard do
/// before a check.
void corrupt(Corrupt kind, std::span<std::byte> memory, const Layout& layout);

}  // namespace railyard::bench
