// Inputs for the start, made by the real encoders: what corpus/ holds.
#include "common/wire.h"
#include "engine/eager_message.h"
#include "engine/introduction.h"
#include "engine/metadata.h"
#include "engine/notification.h"
#include "engine/request.h"
#include "flow/letters.h"
#include "flow/target_info.h"
#include "host/peer_blob.h"
#include "rail/host_card.h"
#include "targets.h"

namespace railyard::fuzz {
namespace {

using Inputs = std::map<std::string, std::string>;

/// What is in front of an envelope's payload.
constexpr std::size_t envelope_header = 4 + 1 + 1 + 4 + 4;

ConnectionInfo connection(std::size_t rails) {
    ConnectionInfo info{"alpha", 0x1122334455667788, "efa-direct", {}};
    for (std::size_t i = 0; i < rails; ++i)
        info.rails.push_back("address-" + std::to_string(i) + std::string(i, '\xfe'));
    return info;
}

MemoryInfo memory() {
    MemoryInfo info;
    info.nonce = 0x1122334455667788;
    info.provider = "tcp";
    info.address = 0x7f0000001000;
    info.length = 1 << 20;
    info.rails = {0, 2};
    info.keys = {{0xdeadbeef, 0}, {0xfeedface, 0x7f0000001000}};
    return info;
}

MemoryInfo staged_memory() {
    MemoryInfo info = memory();
    info.rails.clear();
    info.keys.clear();
    info.staged = true;
    info.token = 77;
    return info;
}

MemoryInfo eager_memory() {
    MemoryInfo info = memory();
    info.eager = true;
    info.token = 78;
    return info;
}

MemoryInfo shared_memory() {
    MemoryInfo info = staged_memory();
    info.shared = cuda::SharedAllocation{{}, info.address - 512, info.length + 4096, 5};
    info.shared->handle.fill('h');
    return info;
}

ConnectionInfo with_host() {
    ConnectionInfo info = connection(1);
    CardAddress card{{}, 4711, 7, 0x7f0000001000, {}};
    card.boot.fill('b');
    card.secret.fill('s');
    info.host = encode(card);
    return info;
}

/// Bits of the first byte: the target puts the envelope around the rest, and that of a later version.
constexpr char bare = 1, bare_and_later = 3, bare_and_latest = 5;

/// As it is, and as payload that gets its envelope from the target.
Inputs enveloped(const std::string& name, const std::string& sealed, char first = bare) {
    return {{name + "-whole", '\0' + sealed}, {name + "-payload", first + sealed.substr(envelope_header)}};
}

Inputs connections() {
    Inputs inputs = enveloped("two-rails", encode(connection(2)));
    ConnectionInfo with_tag = connection(1);
    with_tag.tag = std::string(32, 't');
    inputs.merge(enveloped("signed", encode(with_tag)));
    ConnectionInfo here = with_host();
    inputs.merge(enveloped("host", encode(here), bare_and_later));
    here.tag = with_tag.tag;
    inputs.merge(enveloped("host-signed", encode(here), bare_and_later));
    return inputs;
}

Inputs introduced(const std::string& name, const Introduction& introduction, char first) {
    const std::string sealed = encode(introduction.sender), whole = encode(introduction);
    std::string parts(1, first);
    WireWriter writer(parts);
    writer.number(static_cast<std::uint16_t>(sealed.size() - envelope_header));
    parts += sealed.substr(envelope_header) + whole.substr(4 + sealed.size());
    return {{name + "whole", '\0' + whole}, {name + "parts", parts}};
}

Inputs introductions() {
    const std::vector<IntroducedPair> pairs{{{0, 0}, 1, ""}, {{1, 3}, 2, "sender 1"}};
    Inputs inputs = introduced("", {connection(2), pairs}, bare);
    inputs.merge(introduced("host-", {with_host(), {{{0, 0}, 1, ""}}}, bare_and_later));
    return inputs;
}

Request request(RequestKind kind) {
    Request made;
    made.id = 9;
    made.kind = kind;
    made.tokens = {7, 8};
    if (kind == RequestKind::flush || kind == RequestKind::withdraw) return made;
    made.memories = {{{0, 3}, {{11, 0}, {12, 0x1000}}}};
    made.pieces = {{0x1000, 0x2000, 100, 1, 0}, {0x5000, 0x6000, 1, 0, 0}};
    return made;
}

Inputs peer_blobs() {
    const std::string whole =
        host::encode({"alpha", "RAILYARD", "info", {{0x1000, 64, 0, "m"}, {0, 0, 2, ""}}});
    constexpr std::size_t before = 6 + 2 + 8, behind = 4;
    return {{"whole", '\0' + whole}, {"body", '\1' + whole.substr(before, whole.size() - before - behind)}};
}

std::string frame(const std::string& message) {
    std::string bytes = "RYX1";
    WireWriter writer(bytes);
    writer.number(std::uint64_t{message.size()});
    return bytes + message;
}

/// Each fragment with its length in front, as the target takes them.
std::string fragments(MessageKind kind, const std::string& text, std::size_t size, std::uint64_t id) {
    const std::string agent = "alpha";
    OutNotification out;
    out.kind = kind;
    out.message = text;
    out.start(agent, 7, id, 0, 5);
    std::string all;
    WireWriter writer(all);
    for (bool more = true; more; more = out.advance(out)) {
        std::string buffer(size, '\0');
        buffer.resize(out.fill(out, {reinterpret_cast<std::byte*>(buffer.data()), buffer.size()}));
        writer.number(static_cast<std::uint16_t>(buffer.size()));
        all += buffer;
    }
    return all;
}

/// Programs of the target: steps with their operands, see control.cpp.
Inputs courses() {
    using namespace std::string_literals;
    const std::string honest = "\0\1\0\3\1\20\144\0hello, this is a notification of one hundred bytes"s;
    const std::string letter = "\0\0\3\4\2\40\60\0an answer that is none"s;
    const std::string crafted = "\2\0\2\7\12\0\5abcde"s, rest = "\2\0\2\7\12\5\5fghij"s;
    const std::string other_kind = "\2\1\2\2\7\12\5\5fghij"s, overlap = "\2\0\2\7\12\4\6efghij"s;
    const std::string scattered = "\4\3\1\0\4\0\0\1\200\0\0"s;
    const std::string damaged = "\5\3\0\377\0"s, again = "\6"s, take = "\7"s;
    const std::string number = "\17\203"s, word = "\17\1\5"s, other_word = "\17\1\11"s;
    const std::string early = "\0\3\0\5\10\5\20\144\0sent together with its data"s;
    const std::string question = "\17\103\17\23\10"s, new_word = "\17\1\23"s;
    return {{"asked", '\0' + number + early + question + word + take + new_word + take + question},
            {"early", '\0' + number + early + take + word + take + other_word + early + again + take},
            {"honest", '\0' + honest + letter + take},
            {"signed", '\2' + honest + letter + take + crafted + rest + scattered + damaged + take},
            {"crafted", '\0' + crafted + again + rest + take + crafted + damaged},
            {"contradictions", '\0' + crafted + other_kind + take + overlap + rest + take},
            {"tight", '\1' + scattered + honest + crafted + scattered}};
}

Inputs target_infos() {
    flow::TargetInfo rails{connection(2), {memory(), memory()}, 4},
        staged{connection(1), {staged_memory()}, 1};
    rails.connection.tag = std::string(32, 't');
    for (flow::TargetInfo* info : {&rails, &staged}) {
        for (MemoryInfo& region : info->regions)
            region.provider = info->connection.provider;
    }
    return {{"two-rails", flow::to_json(rails)}, {"staged", flow::to_json(staged)}};
}

/// Shapes of grains, then steps with their operands, see flow.cpp; what is above the lowest four bits of a
/// step's first byte is the source.
Inputs boards() {
    using namespace std::string_literals;
    using flow::FlowLetter, flow::LetterKind;
    const std::string three_of_ten = "\3\0\2\12\0\0\0"s, largest = "\0\1\1\0\20\0\0"s;
    const std::string open = "\60\2\0"s, other = "\100\377\377"s, pop = "\6"s, pop_all = "\7"s;
    const std::string round = "\62\1\1\0\6\0"s, backwards = "\62\1\1\0\6\1"s, torn = "\62\2\2\1\5\0"s;
    const std::string late = "\62\1\375\0\6\0"s, range = "\103\1\0\1\0\0\377\377"s, raw = "\1\0\0\200\60"s;
    const auto letter = [](char step, const FlowLetter& told) {
        const std::string text = encode(told);
        return step + std::string(1, static_cast<char>(text.size())) + text;
    };
    const std::string told = letter('\65', {LetterKind::open, 1, 3, "connection"}) +
                             letter('\65', {LetterKind::grain, 1, 0, "", 0, "", 2, 1, 0, 4}) +
                             letter('\65', {LetterKind::taken, 1, 0, "", 3});
    const std::string crafted =
        "\124\0\1\377\377\377\377\377\377\377\177\0"s + "\124\3\1\2\0\1\0\0\0\0\0\0\0\377\377\377\377"s;
    const std::string endless = letter('\65', {LetterKind::open, 1, UINT64_MAX, "connection"}) +
                                letter('\65', {LetterKind::grain, 1, 0, "", 0, "", 2, 1, 0, 2});
    return {{"rounds", three_of_ten + open + round + round + torn + torn + pop + backwards + late + pop_all},
            {"sources", three_of_ten + open + other + range + round + range + pop + other + range + pop_all},
            {"letters", three_of_ten + told + pop + crafted + raw + told + pop_all},
            {"endless-units", three_of_ten + endless + pop_all},
            {"largest", largest + "\100\1\0"s + range + pop + raw + range}};
}

}  // namespace

Inputs seeds(const std::string& target) {
    const std::vector<IntroducedPair> pairs{{{0, 0}, 1, ""}, {{1, 3}, 2, ""}};
    if (target == "connection") return connections();
    if (target == "introduction") return introductions();
    if (target == "acknowledgement") return {{"two-pairs", encode_acknowledgement(5, pairs)}};
    if (target == "answer")
        return {{"ok", encode(Answer{9, Status::ok})}, {"error", encode(Answer{10, Status::not_allowed})}};
    if (target == "keys")
        return {{"question", encode(KeyQuestion{9, 0x10000, 4096, 1, 2, 77, 3, 78})},
                {"answer", encode(KeyAnswer{9, {{0, 2}, {{78, 0}, {79, 0}}}})},
                {"none", encode(KeyAnswer{9, {}})}};
    if (target == "eager") {
        const EagerLayout two{{7, 8}, {{0x1000, 5, 1}, {0x5000, 1, 0}}}, one{{9}, {{0x2000, 4, 0}}};
        return {{"two", encode({11, two, "bytes!", true, "told"})},
                {"silent", encode({12, one, "four", false, ""})}};
    }
    if (target == "eager_read") {
        const EagerLayout two{{7, 8}, {{0x1000, 5, 1}, {0x5000, 1, 0}}}, one{{9}, {{0x2000, 4, 0}}};
        return {{"two", encode(EagerRead{11, 10, two, true, "told"})},
                {"silent", encode(EagerRead{12, 12, one, false, ""})}};
    }
    if (target == "peer_blob") return peer_blobs();
    if (target == "frame")
        return {{"two", frame("hello") + frame("")}, {"short", frame("hello").substr(0, 14)}};
    if (target == "control") return courses();
    if (target == "flow_info") return target_infos();
    if (target == "flow_board") return boards();
    Inputs inputs;
    if (target == "memory") {
        inputs = enveloped("two-rails", encode(memory()));
        inputs.merge(enveloped("staged", encode(staged_memory())));
        inputs.merge(enveloped("eager", encode(eager_memory()), bare_and_later));
        inputs.merge(enveloped("shared", encode(shared_memory()), bare_and_latest));
    }
    if (target == "request") {
        inputs = {{"write", encode(request(RequestKind::write))},
                  {"read", encode(request(RequestKind::read))},
                  {"flush", encode(request(RequestKind::flush))},
                  {"withdraw", encode(request(RequestKind::withdraw))}};
    }
    if (target == "fragments") {
        const std::string text(150, 'n');
        inputs = {{"notification", fragments(MessageKind::notify, text, 110, 1)},
                  {"letter", fragments(MessageKind::answer, encode(Answer{9, Status::ok}), 110, 2)},
                  {"both", fragments(MessageKind::notify, text, 200, 1) +
                               fragments(MessageKind::notify, text, 80, 2)}};
    }
    return inputs;
}

}  // namespace railyard::fuzz
