#include "flow/letters.h"

#include "common/status.h"
#include "common/wire.h"
#include "flow/immediate.h"

namespace railyard::flow {
namespace {

constexpr std::uint32_t magic = 0x46595201;  // "RYF" and the version
constexpr std::size_t most_connection = std::size_t{1} << 20;
constexpr std::size_t most_reason = 1024;

template <class Wire, class Letter>
void fields(Wire& wire, Letter& letter) {
    wire.number(letter.opening);
    switch (letter.kind) {
        case LetterKind::open:
            wire.number(letter.unit);
            wire.bytes(letter.connection, most_connection);
            break;
        case LetterKind::taken:
            wire.number(letter.source);
            break;
        case LetterKind::refused:
            wire.bytes(letter.reason, most_reason);
            break;
        case LetterKind::grain:
            wire.number(letter.index);
            wire.number(letter.round);
            wire.number(letter.first);
            wire.number(letter.count);
            break;
        case LetterKind::close:
            break;
    }
}

struct Out {
    WireWriter writer;
    template <class Integer>
    void number(Integer value) {
        writer.number(value);
    }
    void bytes(const std::string& value, std::size_t limit) {
        writer.bytes(std::string_view(value).substr(0, limit));
    }
};

struct In {
    WireReader reader;
    template <class Integer>
    void number(Integer& value) {
        value = reader.template number<Integer>();
    }
    void bytes(std::string& value, std::size_t limit) { value = reader.bytes(limit); }
};

}  // namespace

void encode(const FlowLetter& letter, std::string& text) {
    text.clear();
    Out out{WireWriter(text)};
    out.number(magic);
    out.number(static_cast<std::uint8_t>(letter.kind));
    fields(out, letter);
}

std::string encode(const FlowLetter& letter) {
    std::string text;
    encode(letter, text);
    return text;
}

FlowLetter decode_letter(std::string_view text) {
    In in{WireReader(text)};
    std::uint32_t version = 0;
    std::uint8_t kind = 0;
    in.number(version);
    in.number(kind);
    if (version != magic) throw Error(Status::mismatch, "not a message of a flow, or of another version");
    if (kind < 1 || kind > 5)
        throw Error(Status::mismatch, "message of an unknown kind, " + std::to_string(kind));
    FlowLetter letter;
    letter.kind = static_cast<LetterKind>(kind);
    fields(in, letter);
    if (!in.reader.whole() || letter.source >= most_sources)
        throw Error(Status::mismatch, "message of kind " + std::to_string(kind) + " is not whole");
    return letter;
}

}  // namespace railyard::flow
