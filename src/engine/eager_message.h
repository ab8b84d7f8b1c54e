// Small WRITEs and READs and their notifications, if any, in one message each, as bytes. The answer to a
// WRITE, and the refusal of either, is request.h's; a READ is answered with its data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace railyard {

/// Bytes [address, address + length) in the memory that tokens[token] stands for.
struct EagerPiece {
    std::uint64_t address = 0;
    std::uint32_t length = 0;  ///< not 0
    std::uint16_t token = 0;
};

/// Where the data goes to, or comes from: the same however often a transfer is posted.
struct EagerLayout {
    std::vector<std::uint64_t> tokens;  ///< by which the receiver knows its memory
    std::vector<EagerPiece> pieces;
    [[nodiscard]] std::size_t total() const noexcept;  ///< bytes
};

/// A WRITE. Views into what it was read from.
struct EagerMessage {
    std::uint64_t id = 0;  ///< counted by the sender for each receiver; comes back in the answer
    EagerLayout layout;
    std::string_view data;  ///< of the pieces, one behind the other
    bool notifies = false;
    std::string_view text;  ///< the notification; empty without one
};

/// A READ, likewise.
struct EagerRead {
    std::uint64_t id = 0;
    std::uint64_t done_below = 0;  ///< of the sender's with smaller ids, no answer is waited for any more
    EagerLayout layout;
    bool notifies = false;
    std::string_view text;
};

/// Most tokens, pieces and bytes of data of one message.
inline constexpr std::size_t max_eager_tokens = 512;
inline constexpr std::size_t max_eager_pieces = 32768;
inline constexpr std::size_t max_eager_data = std::size_t{1} << 20;

[[nodiscard]] std::string encode(const EagerLayout& layout);
/// A WRITE is its id, its layout, the length of its data, the data, whether it notifies, and the text. Puts
/// the first three there in place of what was in `out`; no allocation where its capacity is enough.
void begin_eager(std::string& out, std::uint64_t id, std::string_view layout, std::size_t data_bytes);
/// A READ is these three, whether it notifies, and the text. Likewise.
void begin_eager_read(std::string& out, std::uint64_t id, std::uint64_t done_below, std::string_view layout);
/// The end of either; the text is empty unless it notifies.
void end_eager(std::string& out, bool notifies, std::string_view text);
[[nodiscard]] std::string encode(const EagerMessage& message);
[[nodiscard]] std::string encode(const EagerRead& message);
/// Throw Error{mismatch} for anything that is not whole and consistent with itself: indices are in range,
/// numbers are limited, no piece is empty or wraps, data is as long as the pieces.
[[nodiscard]] EagerMessage decode_eager(std::string_view bytes);
[[nodiscard]] EagerRead decode_eager_read(std::string_view bytes);

}  // namespace railyard
