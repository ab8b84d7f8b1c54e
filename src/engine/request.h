// What engines ask of each other: to move the bytes of memory that no rail reaches, to make visible what was
// written to a GPU, and which keys memory has now.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "rail/work.h"

namespace railyard {

enum class RequestKind : std::uint8_t {
    read = 1,      ///< write your memory to ours
    write = 2,     ///< read ours into yours
    flush = 3,     ///< let your GPUs see what we wrote to them
    withdraw = 4,  ///< stop what we asked for, and answer it; `tokens` are the ids of those requests
};

struct RequestPiece {
    std::uint64_t theirs = 0;  ///< address in the memory of tokens[token]
    std::uint64_t ours = 0;    ///< address in the asker's memories[memory]
    std::uint64_t length = 0;  ///< bytes
    std::uint16_t token = 0;
    std::uint16_t memory = 0;
};

struct Request {
    std::uint64_t id = 0;  ///< the asker's; comes back in the answer
    RequestKind kind = RequestKind::read;
    std::vector<std::uint64_t> tokens;  ///< of the memories of the one who is asked
    std::vector<KeyTable> memories;     ///< of the asker, with rails
    std::vector<RequestPiece> pieces;
};

/// Of memory whose key was refused: where it is, a key by which it was described, and the one that was
/// refused.
struct KeyQuestion {
    std::uint64_t id = 0;  ///< the asker's; comes back in the answer
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint64_t device_id = 0;
    std::uint16_t rail = 0;  ///< of the asked one
    std::uint64_t key = 0;
    std::uint16_t refused_rail = 0;
    std::uint64_t refused_key = 0;
};

struct KeyAnswer {
    std::uint64_t id = 0;
    KeyTable memory;  ///< of the asked one; no rails: it is not registered
};

struct Answer {
    std::uint64_t id = 0;
    Status status = Status::ok;
};

/// Most pieces of one request, so that it stays a short message.
inline constexpr std::uint32_t max_request_pieces = 512;

[[nodiscard]] std::string encode(const Request& request);
[[nodiscard]] std::string encode(const Answer& answer);
[[nodiscard]] std::string encode(const KeyQuestion& question);
[[nodiscard]] std::string encode(const KeyAnswer& answer);
/// Throw Error{mismatch} for anything that is not whole and consistent with itself: indices are in range,
/// numbers of pieces, memories and rails are limited.
[[nodiscard]] Request decode_request(std::string_view bytes);
/// By which to answer a request that may not be whole. nullopt: it withdraws others, or is too short for one;
/// there is no answer.
[[nodiscard]] std::optional<std::uint64_t> request_id(std::string_view bytes) noexcept;
[[nodiscard]] Answer decode_answer(std::string_view bytes);
[[nodiscard]] KeyQuestion decode_key_question(std::string_view bytes);
[[nodiscard]] KeyAnswer decode_key_answer(std::string_view bytes);

}  // namespace railyard
