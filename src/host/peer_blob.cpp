#include "host/peer_blob.h"

#include <bit>
#include <cstring>

#include "common/crc32.h"
#include "common/status.h"

namespace railyard::host {
namespace {

static_assert(std::endian::native == std::endian::little, "integers are copied as they lie in memory");

constexpr std::string_view magic = "RYPEER";
constexpr std::uint16_t version = 1;

template <class Integer>
void put(std::string& out, Integer value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& out, std::string_view text) {
    put<std::uint64_t>(out, text.size());
    out.append(text);
}

/// Takes fields off the front of the bytes; throws when they run out.
class Reader {
  public:
    explicit Reader(std::string_view bytes) : rest_(bytes) {}

    template <class Integer>
    Integer integer() {
        Integer value{};
        std::memcpy(&value, take(sizeof value).data(), sizeof value);
        return value;
    }
    std::string_view take(std::uint64_t count) {
        if (count > rest_.size()) throw Error(Status::mismatch, "peer metadata is truncated");
        const std::string_view taken = rest_.substr(0, count);
        rest_.remove_prefix(count);
        return taken;
    }
    std::string text() { return std::string(take(integer<std::uint64_t>())); }
    [[nodiscard]] std::size_t left() const noexcept { return rest_.size(); }

  private:
    std::string_view rest_;
};

std::string_view checked_body(std::string_view blob) {
    Reader reader(blob);
    if (blob.size() < magic.size() || reader.take(magic.size()) != magic)
        throw Error(Status::mismatch, "these bytes are no peer metadata of this host (the magic is missing)");
    const auto found = reader.integer<std::uint16_t>();
    if (found != version)
        throw Error(Status::mismatch, "peer metadata has version " + std::to_string(found) +
                                          ", this host knows " + std::to_string(version));
    const std::size_t body_size = reader.integer<std::uint64_t>();
    const std::string_view body = reader.take(body_size);
    const auto sum = reader.integer<std::uint32_t>();
    if (reader.left() != 0) throw Error(Status::mismatch, "peer metadata has bytes behind its end");
    if (sum != crc32(blob.substr(0, blob.size() - sizeof sum)))
        throw Error(Status::mismatch, "peer metadata is damaged (checksum)");
    return body;
}

}  // namespace

std::string encode(const PeerDescription& description) {
    std::string body;
    put_text(body, description.agent);
    put_text(body, description.plugin);
    put_text(body, description.connection_info);
    put<std::uint64_t>(body, description.regions.size());
    for (const PublishedRegion& region : description.regions) {
        put(body, region.address);
        put(body, region.length);
        put(body, region.device);
        put_text(body, region.metadata);
    }
    std::string blob(magic);
    put(blob, version);
    put_text(blob, body);
    put(blob, crc32(blob));
    return blob;
}

PeerDescription decode(std::string_view blob) {
    Reader reader(checked_body(blob));
    PeerDescription description;
    description.agent = reader.text();
    description.plugin = reader.text();
    description.connection_info = reader.text();
    const auto count = reader.integer<std::uint64_t>();
    for (std::uint64_t i = 0; i < count; ++i) {
        PublishedRegion& region = description.regions.emplace_back();
        region.address = reader.integer<std::uint64_t>();
        region.length = reader.integer<std::uint64_t>();
        region.device = reader.integer<std::uint64_t>();
        region.metadata = reader.text();
    }
    if (reader.left() != 0)
        throw Error(Status::mismatch, "peer metadata is damaged (bytes behind the last region)");
    return description;
}

}  // namespace railyard::host
