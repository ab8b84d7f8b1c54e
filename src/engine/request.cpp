#include "engine/request.h"

#include "common/wire.h"
#include "engine/envelope.h"
#include "engine/metadata.h"

namespace railyard {
namespace {

constexpr std::uint16_t max_memories = 512;
constexpr const char* request_words = "request";

KeyTable read_memory(WireReader& reader) {
    KeyTable memory;
    read_keys(reader, request_words, memory.rails, memory.keys);
    require_consistent(!memory.keys.empty(), request_words);
    return memory;
}

RequestPiece read_piece(WireReader& reader, const Request& request) {
    RequestPiece piece;
    piece.theirs = reader.number<std::uint64_t>();
    piece.ours = reader.number<std::uint64_t>();
    piece.length = reader.number<std::uint64_t>();
    piece.token = reader.number<std::uint16_t>();
    piece.memory = reader.number<std::uint16_t>();
    require_consistent(reader.ok() && piece.token < request.tokens.size() &&
                           piece.memory < request.memories.size() && piece.length > 0 &&
                           piece.length <= UINT64_MAX - piece.theirs &&
                           piece.length <= UINT64_MAX - piece.ours,
                       request_words);
    return piece;
}

}  // namespace

std::string encode(const Request& request) {
    std::string out;
    WireWriter writer(out);
    writer.number(request.id);
    writer.number(static_cast<std::uint8_t>(request.kind));
    writer.number(static_cast<std::uint16_t>(request.tokens.size()));
    for (const std::uint64_t token : request.tokens)
        writer.number(token);
    writer.number(static_cast<std::uint16_t>(request.memories.size()));
    for (const KeyTable& memory : request.memories)
        write_keys(writer, memory.rails, memory.keys);
    writer.number(static_cast<std::uint32_t>(request.pieces.size()));
    for (const RequestPiece& piece : request.pieces) {
        writer.number(piece.theirs);
        writer.number(piece.ours);
        writer.number(piece.length);
        writer.number(piece.token);
        writer.number(piece.memory);
    }
    return out;
}

std::string encode(const Answer& answer) {
    std::string out;
    WireWriter writer(out);
    writer.number(answer.id);
    writer.number(static_cast<std::uint8_t>(answer.status));
    return out;
}

std::string encode(const KeyQuestion& question) {
    std::string out;
    WireWriter writer(out);
    writer.number(question.id);
    writer.number(question.address);
    writer.number(question.length);
    writer.number(question.device_id);
    writer.number(question.rail);
    writer.number(question.key);
    writer.number(question.refused_rail);
    writer.number(question.refused_key);
    return out;
}

std::string encode(const KeyAnswer& answer) {
    std::string out;
    WireWriter writer(out);
    writer.number(answer.id);
    write_keys(writer, answer.memory.rails, answer.memory.keys);
    return out;
}

Request decode_request(std::string_view bytes) {
    WireReader reader(bytes);
    Request request;
    request.id = reader.number<std::uint64_t>();
    const auto kind = reader.number<std::uint8_t>();
    require_consistent(kind >= static_cast<std::uint8_t>(RequestKind::read) &&
                           kind <= static_cast<std::uint8_t>(RequestKind::withdraw),
                       request_words);
    request.kind = static_cast<RequestKind>(kind);
    const auto tokens = reader.number<std::uint16_t>();
    require_consistent(reader.ok() && tokens > 0 && tokens <= max_memories, request_words);
    for (int i = 0; i < tokens && reader.ok(); ++i)
        request.tokens.push_back(reader.number<std::uint64_t>());
    const auto memories = reader.number<std::uint16_t>();
    require_consistent(reader.ok() && memories <= max_memories, request_words);
    for (int i = 0; i < memories && reader.ok(); ++i)
        request.memories.push_back(read_memory(reader));
    const auto pieces = reader.number<std::uint32_t>();
    require_consistent(reader.ok() && pieces <= max_request_pieces, request_words);
    for (std::uint32_t i = 0; i < pieces && reader.ok(); ++i)
        request.pieces.push_back(read_piece(reader, request));
    const bool moves = request.kind == RequestKind::read || request.kind == RequestKind::write;
    require_consistent(reader.whole() && moves == !request.pieces.empty(), request_words);
    return request;
}

std::optional<std::uint64_t> request_id(std::string_view bytes) noexcept {
    WireReader reader(bytes);
    const auto id = reader.number<std::uint64_t>();
    const auto kind = reader.number<std::uint8_t>();
    if (!reader.ok() || kind == static_cast<std::uint8_t>(RequestKind::withdraw)) return std::nullopt;
    return id;
}

Answer decode_answer(std::string_view bytes) {
    WireReader reader(bytes);
    Answer answer;
    answer.id = reader.number<std::uint64_t>();
    const auto status = reader.number<std::uint8_t>();
    require_consistent(reader.whole() && status <= static_cast<std::uint8_t>(Status::canceled), "answer");
    answer.status = static_cast<Status>(status);
    require_consistent(answer.status != Status::in_progress && answer.status != Status::not_posted, "answer");
    return answer;
}

KeyQuestion decode_key_question(std::string_view bytes) {
    WireReader reader(bytes);
    KeyQuestion question;
    question.id = reader.number<std::uint64_t>();
    question.address = reader.number<std::uint64_t>();
    question.length = reader.number<std::uint64_t>();
    question.device_id = reader.number<std::uint64_t>();
    question.rail = reader.number<std::uint16_t>();
    question.key = reader.number<std::uint64_t>();
    question.refused_rail = reader.number<std::uint16_t>();
    question.refused_key = reader.number<std::uint64_t>();
    require_consistent(reader.whole(), "question about keys");
    return question;
}

KeyAnswer decode_key_answer(std::string_view bytes) {
    WireReader reader(bytes);
    KeyAnswer answer;
    answer.id = reader.number<std::uint64_t>();
    read_keys(reader, "answer about keys", answer.memory.rails, answer.memory.keys);
    require_consistent(reader.whole(), "answer about keys");
    return answer;
}

}  // namespace railyard
