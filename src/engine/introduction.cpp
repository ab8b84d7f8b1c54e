#include "engine/introduction.h"

#include "common/status.h"
#include "common/wire.h"
#include "engine/envelope.h"

namespace railyard {
namespace {

constexpr std::size_t max_connection_info = std::size_t{1} << 20;
constexpr std::uint16_t max_pairs = 4096;

void write_pairs(WireWriter& writer, const std::vector<RailPair>& pairs) {
    writer.number(static_cast<std::uint16_t>(pairs.size()));
    for (const RailPair pair : pairs) {
        writer.number(pair.local);
        writer.number(pair.remote);
    }
}

std::vector<RailPair> read_pairs(WireReader& reader, const char* what) {
    const auto count = reader.number<std::uint16_t>();
    require_consistent(reader.ok() && count > 0 && count <= max_pairs, what);
    std::vector<RailPair> pairs;
    for (int i = 0; i < count && reader.ok(); ++i) {
        const auto local = reader.number<std::uint16_t>();
        pairs.push_back({local, reader.number<std::uint16_t>()});
    }
    require_consistent(reader.whole(), what);
    return pairs;
}

}  // namespace

std::string encode(const Introduction& introduction) {
    std::string out;
    WireWriter writer(out);
    writer.bytes(encode(introduction.sender));
    write_pairs(writer, introduction.pairs);
    return out;
}

Introduction decode_introduction(std::string_view bytes) {
    constexpr const char* what = "introduction";
    WireReader reader(bytes);
    Introduction introduction;
    introduction.sender = decode_connection(reader.bytes(max_connection_info));
    introduction.pairs = read_pairs(reader, what);
    for (const RailPair pair : introduction.pairs)
        require_consistent(pair.local < introduction.sender.rails.size(), what);
    return introduction;
}

std::string encode_acknowledgement(std::uint64_t introduced_nonce, const std::vector<RailPair>& pairs) {
    std::string out;
    WireWriter writer(out);
    writer.number(introduced_nonce);
    write_pairs(writer, pairs);
    return out;
}

Acknowledgement decode_acknowledgement(std::string_view bytes) {
    WireReader reader(bytes);
    Acknowledgement acknowledgement;
    acknowledgement.introduced_nonce = reader.number<std::uint64_t>();
    acknowledgement.pairs = read_pairs(reader, "acknowledgement");
    return acknowledgement;
}

}  // namespace railyard
