// What engines ask of each other: to move the bytes of memory that no rail reaches, and to make visible what
// was written to a GPU.
#pragma once

#include <cstdint>
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

/// Memory of the asker, as the asked one's rails reach it.
struct RequestMemory {
    std::vector<std::uint16_t> rails;  ///< of the asker, growing
    std::vector<RemoteKey> keys;       ///< in the order of `rails`
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
    std::vector<RequestMemory> memories;
    std::vector<RequestPiece> pieces;
};

struct Answer {
    std::uint64_t id = 0;
    Status status = Status::ok;
};

/// Most pieces of one request, so that it stays a short message.
inline constexpr std::uint32_t max_request_pieces = 512;

[[nodiscard]] std::string encode(const Request& request);
[[nodiscard]] std::string encode(const Answer& answer);
/// Throw Error{mismatch} for anything that is not whole and consistent with itself: indices are in range,
/// numbers of pieces, memories and rails are limited.
[[nodiscard]] Request decode_request(std::string_view bytes);
[[nodiscard]] Answer decode_answer(std::string_view bytes);

}  // namespace railyard
