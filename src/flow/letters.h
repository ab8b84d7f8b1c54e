// What the two sides of a flow tell each other by notifications. docs/flow.md, "Who is who".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace railyard::flow {

enum class LetterKind : std::uint8_t {
    open = 1,     ///< initiator: here I am, and so I cut grains
    taken = 2,    ///< target: and so your units are to be named
    refused = 3,  ///< target: and why
    grain = 4,    ///< initiator: units that no immediate data told of
    close = 5     ///< either: this opening is over
};

/// Fields that its kind does not name are 0 and do not travel.
struct FlowLetter {
    LetterKind kind = LetterKind::close;
    std::uint32_t opening = 0;  ///< counted by the initiator, one a target that it adds
    std::uint64_t unit = 0;     ///< open: length of units
    std::string connection{};   ///< open: the initiator's connection info
    std::uint32_t source = 0;   ///< taken
    std::string reason{};       ///< refused
    std::uint32_t index = 0;    ///< grain
    std::uint32_t round = 0;    ///< grain; the lowest bits
    std::uint32_t first = 0;    ///< grain; unit
    std::uint32_t count = 0;    ///< grain; units
};

/// Writes into `text`, which keeps its room.
void encode(const FlowLetter& letter, std::string& text);
[[nodiscard]] std::string encode(const FlowLetter& letter);
/// Throws Error{mismatch}: not one, not whole, of another version, or with a source that there cannot be.
[[nodiscard]] FlowLetter decode_letter(std::string_view text);

}  // namespace railyard::flow
