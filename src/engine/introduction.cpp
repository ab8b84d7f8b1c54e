#include "engine/introduction.h"

#include "common/status.h"
#include "common/wire.h"
#include "engine/envelope.h"

namespace railyard {
namespace {

constexpr std::size_t max_connection_info = std::size_t{1} << 20;
constexpr std::uint16_t max_pairs = 4096;

void write_pairs(WireWriter& writer, const std::vector<IntroducedPair>& pairs, bool with_senders) {
    writer.number(static_cast<std::uint16_t>(pairs.size()));
    for (const IntroducedPair& introduced : pairs) {
        writer.number(introduced.pair.local);
        writer.number(introduced.pair.remote);
        writer.number(introduced.generation);
        if (with_senders) writer.bytes(introduced.sender);
    }
}

std::vector<IntroducedPair> read_pairs(WireReader& reader, const char* what, bool with_senders) {
    const auto count = reader.number<std::uint16_t>();
    require_consistent(reader.ok() && count > 0 && count <= max_pairs, what);
    std::vector<IntroducedPair> pairs;
    for (int i = 0; i < count && reader.ok(); ++i) {
        IntroducedPair introduced;
        introduced.pair.local = reader.number<std::uint16_t>();
        introduced.pair.remote = reader.number<std::uint16_t>();
        introduced.generation = reader.number<std::uint32_t>();
        require_consistent(introduced.generation != 0, what);
        if (with_senders) introduced.sender = reader.bytes(max_address);
        pairs.push_back(std::move(introduced));
    }
    require_consistent(reader.whole(), what);
    return pairs;
}

}  // namespace

std::string encode(const Introduction& introduction) {
    std::string out;
    WireWriter writer(out);
    writer.bytes(encode(introduction.sender));
    write_pairs(writer, introduction.pairs, true);
    return out;
}

Introduction decode_introduction(std::string_view bytes) {
    constexpr const char* what = "introduction";
    WireReader reader(bytes);
    Introduction introduction;
    introduction.sender = decode_connection(reader.bytes(max_connection_info));
    introduction.pairs = read_pairs(reader, what, true);
    for (const IntroducedPair& introduced : introduction.pairs)
        require_consistent(introduced.pair.local < introduction.sender.rails.size(), what);
    return introduction;
}

std::string encode_acknowledgement(std::uint64_t introduced_nonce, const std::vector<IntroducedPair>& pairs) {
    std::string out;
    WireWriter writer(out);
    writer.number(introduced_nonce);
    write_pairs(writer, pairs, false);
    return out;
}

Acknowledgement decode_acknowledgement(std::string_view bytes) {
    WireReader reader(bytes);
    Acknowledgement acknowledgement;
    acknowledgement.introduced_nonce = reader.number<std::uint64_t>();
    acknowledgement.pairs = read_pairs(reader, "acknowledgement", false);
    return acknowledgement;
}

}  // namespace railyard
