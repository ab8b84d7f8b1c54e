#include "engine/metadata.h"

#include <algorithm>

#include "common/status.h"
#include "common/wire.h"
#include "engine/envelope.h"
#include "engine/message_auth.h"
#include "manager/registration.h"

namespace railyard {
namespace {

constexpr std::size_t max_payload = std::size_t{1} << 20;
constexpr std::size_t max_provider_name = 64;
constexpr std::uint16_t max_rails = 1024;
constexpr unsigned flag_writable = 1, flag_staged = 2, flag_needs_flush = 4, flag_eager = 16;
constexpr unsigned first_flags = flag_writable | flag_staged | flag_needs_flush;  // every version knows them
constexpr unsigned all_flags = first_flags | flag_eager;

void write_shared(std::string& payload, const cuda::SharedAllocation& shared) {
    payload.append(shared.handle.data(), shared.handle.size());
    WireWriter writer(payload);
    writer.number(shared.start);
    writer.number(shared.length);
    writer.number(shared.buffer_id);
}

cuda::SharedAllocation read_shared(WireReader& reader) {
    cuda::SharedAllocation shared;
    const std::string_view handle = reader.raw(shared.handle.size());
    std::copy(handle.begin(), handle.end(), shared.handle.begin());
    shared.start = reader.number<std::uint64_t>();
    shared.length = reader.number<std::uint64_t>();
    shared.buffer_id = reader.number<std::uint64_t>();
    return shared;
}

}  // namespace

void write_keys(WireWriter& writer, const std::vector<std::uint16_t>& rails,
                const std::vector<RemoteKey>& keys) {
    writer.number(static_cast<std::uint16_t>(keys.size()));
    for (std::size_t i = 0; i < keys.size(); ++i) {
        writer.number(rails[i]);
        writer.number(keys[i].key);
        writer.number(keys[i].address_base);
    }
}

void read_keys(WireReader& reader, const char* what, std::vector<std::uint16_t>& rails,
               std::vector<RemoteKey>& keys) {
    const auto count = reader.number<std::uint16_t>();
    require_consistent(reader.ok() && count <= max_rails, what);
    for (int i = 0; i < count && reader.ok(); ++i) {
        const auto rail = reader.number<std::uint16_t>();
        require_consistent(rail < max_rails && (rails.empty() || rails.back() < rail), what);
        rails.push_back(rail);
        RemoteKey key;
        key.key = reader.number<std::uint64_t>();
        key.address_base = reader.number<std::uint64_t>();
        keys.push_back(key);
    }
}

std::string signed_part(const ConnectionInfo& info) {
    std::string payload;
    WireWriter writer(payload);
    writer.bytes(info.agent);
    writer.number(info.nonce);
    writer.bytes(info.provider);
    writer.number(static_cast<std::uint16_t>(info.rails.size()));
    for (const std::string& address : info.rails)
        writer.bytes(address);
    if (!info.host.empty()) writer.bytes(info.host);
    return payload;
}

std::string encode(const ConnectionInfo& info) {
    std::string payload = signed_part(info);
    WireWriter(payload).bytes(info.tag);
    // What has no host part is what earlier versions understand, too.
    return seal(EnvelopeKind::connection, payload, info.host.empty() ? wire_version : extended_version);
}

ConnectionInfo decode_connection(std::string_view sealed) {
    std::uint8_t version = wire_version;
    WireReader reader(unseal(EnvelopeKind::connection, sealed, max_payload, &version));
    ConnectionInfo info;
    info.agent = reader.bytes(max_agent_name);
    info.nonce = reader.number<std::uint64_t>();
    info.provider = reader.bytes(max_provider_name);
    const auto rails = reader.number<std::uint16_t>();
    require_consistent(reader.ok() && rails > 0 && rails <= max_rails, "connection info");
    for (int i = 0; i < rails && reader.ok(); ++i)
        info.rails.emplace_back(reader.bytes(max_address));
    if (version == extended_version) info.host = reader.bytes(max_address);
    info.tag = reader.bytes(MessageAuth::tag_size);
    require_consistent(reader.whole() && !info.agent.empty(), "connection info");
    require_consistent(version != extended_version || !info.host.empty(), "connection info");
    require_consistent(info.tag.empty() || info.tag.size() == MessageAuth::tag_size, "connection info");
    return info;
}

std::string encode(const MemoryInfo& info) {
    std::string payload;
    WireWriter writer(payload);
    writer.number(info.nonce);
    writer.bytes(info.provider);
    writer.number(info.address);
    writer.number(info.length);
    writer.number(info.device_id);
    writer.number(
        static_cast<std::uint8_t>((info.writable ? flag_writable : 0) | (info.staged ? flag_staged : 0) |
                                  (info.needs_flush ? flag_needs_flush : 0) | (info.eager ? flag_eager : 0)));
    writer.number(info.token);
    write_keys(writer, info.rails, info.keys);
    // As with connection info.
    if (!info.shared)
        return seal(EnvelopeKind::memory, payload, info.eager ? extended_version : wire_version);
    write_shared(payload, *info.shared);
    return seal(EnvelopeKind::memory, payload, shared_version);
}

MemoryInfo decode_memory(std::string_view sealed) {
    std::uint8_t version = wire_version;
    WireReader reader(unseal(EnvelopeKind::memory, sealed, max_payload, &version, shared_version));
    MemoryInfo info;
    info.nonce = reader.number<std::uint64_t>();
    info.provider = reader.bytes(max_provider_name);
    info.address = reader.number<std::uint64_t>();
    info.length = reader.number<std::uint64_t>();
    info.device_id = reader.number<std::uint64_t>();
    const auto flags = reader.number<std::uint8_t>();
    info.token = reader.number<std::uint64_t>();
    const bool extended = version == extended_version;
    require_consistent(reader.ok() && (flags & ~(extended ? all_flags : first_flags)) == 0,
                       "memory metadata");
    info.writable = flags & flag_writable;
    info.staged = flags & flag_staged;
    info.needs_flush = flags & flag_needs_flush;
    info.eager = flags & flag_eager;
    read_keys(reader, "memory metadata", info.rails, info.keys);
    if (version == shared_version) info.shared = read_shared(reader);
    for (const RemoteKey& key : info.keys)
        require_consistent(key.address_base == 0 || key.address_base == info.address, "memory metadata");
    require_consistent(reader.whole() && info.length <= UINT64_MAX - info.address, "memory metadata");
    require_consistent((info.length == 0 || info.staged) == info.keys.empty(), "memory metadata");
    require_consistent(!(info.staged && info.needs_flush) && info.eager == extended, "memory metadata");
    require_consistent(!info.shared || (info.token != 0 && covers(info.shared->start, info.shared->length,
                                                                  info.address, info.length)),
                       "memory metadata");
    require_consistent(!info.eager || (!info.staged && !info.needs_flush && info.writable && info.token != 0),
                       "memory metadata");
    return info;
}

}  // namespace railyard
