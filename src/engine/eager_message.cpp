#include "engine/eager_message.h"

#include "common/wire.h"
#include "engine/envelope.h"

namespace railyard {
namespace {

constexpr const char* eager_words = "small WRITE";

EagerLayout read_layout(WireReader& reader) {
    EagerLayout layout;
    const auto tokens = reader.number<std::uint16_t>();
    require_consistent(reader.ok() && tokens > 0 && tokens <= max_eager_pieces, eager_words);
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
    return layout;
}

}  // namespace

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

std::string encode(const EagerMessage& message) {
    std::string out;
    begin_eager(out, message.id, encode(message.layout), message.data.size());
    out += message.data;
    out += static_cast<char>(message.notifies);
    out += message.text;
    return out;
}

EagerMessage decode_eager(std::string_view bytes) {
    WireReader reader(bytes);
    EagerMessage message;
    message.id = reader.number<std::uint64_t>();
    message.layout = read_layout(reader);
    std::size_t length = 0;
    for (const EagerPiece& piece : message.layout.pieces)
        length += piece.length;
    message.data = reader.bytes(max_eager_data);
    const auto notifies = reader.number<std::uint8_t>();
    message.notifies = notifies == 1;
    message.text = reader.rest();
    require_consistent(reader.ok() && message.data.size() == length && notifies <= 1 &&
                           (message.notifies || message.text.empty()),
                       eager_words);
    return message;
}

}  // namespace railyard
