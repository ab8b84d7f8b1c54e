#include "engine/envelope.h"

#include "common/crc32.h"
#include "common/status.h"
#include "common/wire.h"

namespace railyard {
namespace {

constexpr std::string_view magic = "RYRD";

const char* name(EnvelopeKind kind) {
    return kind == EnvelopeKind::connection ? "connection info" : "memory metadata";
}

[[noreturn]] void refuse(EnvelopeKind kind, const std::string& reason) {
    throw Error(Status::mismatch, std::string(name(kind)) + " refused: " + reason);
}

}  // namespace

void require_consistent(bool good, const char* what) {
    if (!good) throw Error(Status::mismatch, std::string(what) + " refused: its fields are not consistent");
}

std::string seal(EnvelopeKind kind, std::string_view payload, std::uint8_t version) {
    std::string out(magic);
    WireWriter writer(out);
    writer.number(static_cast<std::uint8_t>(kind));
    writer.number(version);
    writer.number(crc32(payload));
    writer.bytes(payload);
    return out;
}

std::string_view unseal(EnvelopeKind kind, std::string_view sealed, std::size_t limit,
                        std::uint8_t* found_version, std::uint8_t latest) {
    WireReader reader(sealed);
    if (reader.raw(magic.size()) != magic) refuse(kind, "not made by Railyard");
    const auto found_kind = reader.number<std::uint8_t>();
    const auto version = reader.number<std::uint8_t>();
    const auto checksum = reader.number<std::uint32_t>();
    const auto length = reader.number<std::uint32_t>();
    if (!reader.ok()) refuse(kind, "truncated");
    const std::uint8_t newest = found_version ? latest : wire_version;
    if (version < wire_version || version > newest) {
        refuse(kind, "version " + std::to_string(version) + ", this build reads " +
                         std::to_string(wire_version) +
                         (newest > wire_version ? " to " + std::to_string(newest) : "") +
                         ": run the same Railyard release on both sides");
    }
    if (found_kind != static_cast<std::uint8_t>(kind)) refuse(kind, "holds something else");
    if (length > limit)
        refuse(kind, "claims " + std::to_string(length) + " bytes, more than " + std::to_string(limit));
    const std::string_view payload = reader.raw(length);
    if (!reader.whole()) refuse(kind, "truncated or followed by other bytes");
    if (crc32(payload) != checksum) refuse(kind, "damaged (checksum differs)");
    if (found_version) *found_version = version;
    return payload;
}

}  // namespace railyard
