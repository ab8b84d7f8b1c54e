#include "engine/eager_message.h"

#include "common/wire.h"
#include "engine/envelope.h"

namespace railyard {
namespace {

constexpr const char* eager_words = "small transfer";

EagerLayout read_layout(WireReader& reader) {
    EagerLayout layout;
    const auto tokens = reader.number<std::uint16_t>();
    require_consistent(reader.ok() && tokens > 0 && tokens <= max_eager_tokens, eager_words);
    for (int i = 0; i < tokens && reader.ok(); ++i)
        layout.tokens.push_back(reader.number<std::uint64_t>());
    const auto pieces = reader.number<std::uint16_t>();
    require_consistent(reader.ok() && pieces > 0 && pieces <= max_eager_pieces, eager_words);
    for (int i = 0; i < pieces; ++i) {
        EagerPiece piece;
        piece.address = reader.number<std::uint64_t>();
        piece.length = reader.number<std::uint32_t>();
        piece.token = reader.number<std::uint16_t>();
        require_consistent(reader.ok() && piece.token < tokens && piece.length > 0 &&
                               piece.length <= UINT64_MAX - piece.address,
                           eager_words);
        layout.pieces.push_back(piece);
    }
    require_consistent(layout.total() <= max_eager_data, eager_words);
    return layout;
}

/// The end of a message, of either kind.
template <class Message>
void read_notification(WireReader& reader, Message& message) {
    const auto notifies = reader.number<std::uint8_t>();
    message.notifies = notifies == 1;
    message.text = reader.rest();
    require_consistent(reader.ok() && notifies <= 1 && (message.notifies || message.text.empty()),
                       eager_words);
}

}  // namespace

std::size_t EagerLayout::total() const noexcept {
    std::size_t bytes = 0;
    for (const EagerPiece& piece : pieces)
        bytes += piece.length;
    return bytes;
}

std::string encode(const EagerLayout& layout) {
    std::string out;
    WireWriter writer(out);
    writer.number(static_cast<std::uint16_t>(layout.tokens.size()));
    for (const std::uint64_t token : layout.tokens)
        writer.number(token);
    writer.number(static_cast<std::uint16_t>(layout.pieces.size()));
    for (const EagerPiece& piece : layout.pieces) {
        writer.number(piece.address);
        writer.number(piece.length);
        writer.number(piece.token);
    }
    return out;
}

void begin_eager(std::string& out, std::uint64_t id, std::string_view layout, std::size_t data_bytes) {
    out.clear();
    WireWriter writer(out);
    writer.number(id);
    out += layout;
    writer.number(static_cast<std::uint32_t>(data_bytes));
}

void begin_eager_read(std::string& out, std::uint64_t id, std::uint64_t done_below, std::string_view layout) {
    out.clear();
    WireWriter writer(out);
    writer.number(id);
    writer.number(done_below);
    out += layout;
}

void end_eager(std::string& out, bool notifies, std::string_view text) {
    out += static_cast<char>(notifies);
    out += text;
}

std::string encode(const EagerMessage& message) {
    std::string out;
    begin_eager(out, message.id, encode(message.layout), message.data.size());
    out += message.data;
    end_eager(out, message.notifies, message.text);
    return out;
}

std::string encode(const EagerRead& message) {
    std::string out;
    begin_eager_read(out, message.id, message.done_below, encode(message.layout));
    end_eager(out, message.notifies, message.text);
    return out;
}

EagerMessage decode_eager(std::string_view bytes) {
    WireReader reader(bytes);
    EagerMessage message;
    message.id = reader.number<std::uint64_t>();
    message.layout = read_layout(reader);
    message.data = reader.bytes(max_eager_data);
    require_consistent(message.data.size() == message.layout.total(), eager_words);
    read_notification(reader, message);
    return message;
}

EagerRead decode_eager_read(std::string_view bytes) {
    WireReader reader(bytes);
    EagerRead message;
    message.id = reader.number<std::uint64_t>();
    message.done_below = reader.number<std::uint64_t>();
    message.layout = read_layout(reader);
    read_notification(reader, message);
    return message;
}

}  // namespace railyard
