// The decoders, each on its own. Every format has one way to say a thing, so what was taken must come out of
// the encoder as it was.
#include <sys/socket.h>
#include <unistd.h>

#include "common/crc32.h"
#include "common/wire.h"
#include "engine/eager_message.h"
#include "engine/envelope.h"
#include "engine/introduction.h"
#include "engine/metadata.h"
#include "engine/request.h"
#include "host/metadata_exchange.h"
#include "host/peer_blob.h"
#include "rail/host_card.h"
#include "targets.h"

namespace railyard::fuzz {
namespace {

constexpr const char* round_trip = "what a decoder took, its encoder makes again";

/// The first bit of an input says whether the envelope, whose checksum no mutation survives, is put around
/// the rest here, and the next two which version it is of.
std::string sealed(EnvelopeKind kind, std::string_view payload, std::uint8_t bits) {
    return seal(kind, payload, bits & 4 ? shared_version : bits & 2 ? extended_version : wire_version);
}

std::string enveloped(EnvelopeKind kind, std::string_view input) {
    Feed feed(input);
    const auto bits = feed.number<std::uint8_t>();
    const std::string_view rest = feed.rest();
    return bits & 1 ? sealed(kind, rest, bits) : std::string(rest);
}

/// What the host rail reads of it, before it looks at any process.
void look_at_host(const ConnectionInfo& info) {
    if (info.host.empty()) return;
    const auto address = unless_refused([&] { return decode_card_address(info.host); });
    if (!address) return;
    require(encode(*address) == info.host, round_trip);
    require(address->pid > 0, "a process has a number, and is no group of them");
}

/// Bytes of its pieces, each of which must be sound.
std::size_t checked_total(const EagerLayout& layout) {
    std::size_t length = 0;
    for (const EagerPiece& piece : layout.pieces) {
        require(piece.token < layout.tokens.size(), "indices are in range");
        require(piece.length != 0 && piece.length <= UINT64_MAX - piece.address, "pieces do not wrap");
        length += piece.length;
    }
    return length;
}

}  // namespace

bool fuzz_connection(std::string_view input) {
    const std::string bytes = enveloped(EnvelopeKind::connection, input);
    const auto info = unless_refused([&] { return decode_connection(bytes); });
    if (!info) return false;
    require(encode(*info) == bytes, round_trip);
    require(!info->agent.empty() && info->agent.size() <= max_agent_name,
            "an agent's name has 1 to 1024 bytes");
    require(!info->rails.empty(), "a peer has rails");
    require(info->host.size() <= max_address, "a host part has at most 256 bytes");
    look_at_host(*info);
    return true;
}

bool fuzz_memory(std::string_view input) {
    const std::string bytes = enveloped(EnvelopeKind::memory, input);
    const auto info = unless_refused([&] { return decode_memory(bytes); });
    if (!info) return false;
    require(encode(*info) == bytes, round_trip);
    require(info->length <= UINT64_MAX - info->address, "a range does not wrap");
    require(info->rails.size() == info->keys.size(), "each rail has a key");
    require(!info->shared || (info->token != 0 && info->address >= info->shared->start),
            "shared memory lies in its allocation and has a word");
    for (std::size_t i = 1; i < info->rails.size(); ++i)
        require(info->rails[i - 1] < info->rails[i], "rails grow");
    return true;
}

bool fuzz_introduction(std::string_view input) {
    Feed feed(input);
    std::string bytes;
    const auto bits = feed.number<std::uint8_t>();
    if (bits & 1) {
        WireWriter writer(bytes);
        writer.bytes(sealed(EnvelopeKind::connection, feed.take(feed.number<std::uint16_t>()), bits));
    }
    bytes += feed.rest();
    const auto introduction = unless_refused([&] { return decode_introduction(bytes); });
    if (!introduction) return false;
    require(encode(*introduction) == bytes, round_trip);
    look_at_host(introduction->sender);
    for (const IntroducedPair& introduced : introduction->pairs)
        require(introduced.pair.local < introduction->sender.rails.size(),
                "pairs name rails of their sender");
    return true;
}

bool fuzz_acknowledgement(std::string_view input) {
    const auto decoded = unless_refused([&] { return decode_acknowledgement(input); });
    if (!decoded) return false;
    require(encode_acknowledgement(decoded->introduced_nonce, decoded->pairs) == input, round_trip);
    return true;
}

bool fuzz_request(std::string_view input) {
    const auto request = unless_refused([&] { return decode_request(input); });
    if (!request) return false;
    require(encode(*request) == input, round_trip);
    for (const RequestPiece& piece : request->pieces) {
        require(piece.token < request->tokens.size() && piece.memory < request->memories.size(),
                "indices are in range");
        require(piece.length != 0 && piece.length <= UINT64_MAX - piece.theirs &&
                    piece.length <= UINT64_MAX - piece.ours,
                "pieces do not wrap");
    }
    for (const KeyTable& memory : request->memories)
        require(!memory.rails.empty() && memory.rails.size() == memory.keys.size(), "memories have keys");
    return true;
}

bool fuzz_eager(std::string_view input) {
    const auto message = unless_refused([&] { return decode_eager(input); });
    if (!message) return false;
    require(encode(*message) == input, round_trip);
    require(checked_total(message->layout) == message->data.size(), "data is as long as its pieces");
    return true;
}

bool fuzz_eager_read(std::string_view input) {
    const auto message = unless_refused([&] { return decode_eager_read(input); });
    if (!message) return false;
    require(encode(*message) == input, round_trip);
    require(checked_total(message->layout) <= max_eager_data, "an answer keeps its limit");
    return true;
}

/// A question about keys, or an answer.
bool fuzz_keys(std::string_view input) {
    const auto question = unless_refused([&] { return decode_key_question(input); });
    if (question) require(encode(*question) == input, round_trip);
    const auto answer = unless_refused([&] { return decode_key_answer(input); });
    if (!answer) return question.has_value();
    require(encode(*answer) == input, round_trip);
    require(answer->memory.rails.size() == answer->memory.keys.size(), "a key for each rail");
    return true;
}

bool fuzz_answer(std::string_view input) {
    const auto answer = unless_refused([&] { return decode_answer(input); });
    if (!answer) return false;
    require(encode(*answer) == input, round_trip);
    require(answer->status != Status::in_progress && answer->status != Status::not_posted,
            "an answer is an end");
    return true;
}

bool fuzz_peer_blob(std::string_view input) {
    Feed feed(input);
    const bool bare = feed.number<std::uint8_t>() & 1;
    std::string blob(feed.rest());
    if (bare) {
        std::string whole = "RYPEER";
        WireWriter writer(whole);
        writer.number(std::uint16_t{1});
        writer.number(std::uint64_t{blob.size()});
        whole += blob;
        writer.number(crc32(whole));
        blob = whole;
    }
    const auto description = unless_refused([&] { return host::decode(blob); });
    if (!description) return false;
    require(host::encode(*description) == blob, round_trip);
    return true;
}

/// What arrives on the socket over which two hosts exchange their metadata, and then its end.
bool fuzz_frame(std::string_view input) {
    constexpr std::size_t most = std::size_t{1} << 16;
    constexpr auto limit = std::chrono::seconds(5);
    if (input.size() > most) return false;  // what the socket takes without a reader
    int ends[2];
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "a socket pair is to be had");
    host::Channel reader(ends[0]);
    require(write(ends[1], input.data(), input.size()) == static_cast<ssize_t>(input.size()),
            "the socket takes the input");
    close(ends[1]);
    bool taken = false;
    try {
        for (;;) {
            require(reader.receive(limit, most).size() <= most, "the limit holds");
            taken = true;
        }
    } catch (const Error& error) {
        require(error.status() == Status::mismatch || error.status() == Status::remote_disconnect,
                "a bad frame or the end, and no wait for more");
    }
    return taken;
}

}  // namespace railyard::fuzz
