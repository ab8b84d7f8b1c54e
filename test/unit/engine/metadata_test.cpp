#include "engine/metadata.h"

#include <gtest/gtest.h>

#include <random>

#include "common/status.h"
#include "common/wire.h"
#include "engine/engine.h"
#include "engine/envelope.h"

namespace railyard {
namespace {

const ConnectionInfo connection{
    "agent", 0x1122334455667788, "net", {std::string(16, 'a'), std::string(16, '\0')}};
const MemoryInfo memory{7,      "net",
                        0x1000, 0x2000,
                        3,      false,
                        false,  true,
                        false,  0x8877665544332211,
                        {1, 6}, {{0xFFFFFFFFFFFFFFFF, 0x1000}, {5, 0}}};

TEST(Metadata, ComesBackAsItWas) {
    const ConnectionInfo c = decode_connection(encode(connection));
    EXPECT_EQ(c.agent, connection.agent);
    EXPECT_EQ(c.nonce, connection.nonce);
    EXPECT_EQ(c.provider, connection.provider);
    EXPECT_EQ(c.rails, connection.rails);
    const MemoryInfo m = decode_memory(encode(memory));
    EXPECT_EQ(m.nonce, memory.nonce);
    EXPECT_EQ(m.address, memory.address);
    EXPECT_EQ(m.length, memory.length);
    EXPECT_EQ(m.device_id, memory.device_id);
    EXPECT_EQ(m.writable, memory.writable);
    EXPECT_EQ(m.staged, memory.staged);
    EXPECT_EQ(m.needs_flush, memory.needs_flush);
    EXPECT_EQ(m.token, memory.token);
    EXPECT_EQ(m.rails, memory.rails);
    MemoryInfo staged = memory;
    staged.staged = true;
    staged.needs_flush = false;
    staged.rails.clear();
    staged.keys.clear();
    EXPECT_TRUE(decode_memory(encode(staged)).staged);
    ASSERT_EQ(m.keys.size(), 2u);
    EXPECT_EQ(m.keys[0].key, memory.keys[0].key);
    EXPECT_EQ(m.keys[0].address_base, memory.keys[0].address_base);
}

/// Without a part for the host rail nothing differs from what earlier versions write and read.
TEST(Metadata, OnlyAHostPartNeedsTheLaterVersion) {
    constexpr std::size_t version_at = 5;
    const std::string without = encode(connection);
    EXPECT_EQ(without[version_at], 4);
    EXPECT_EQ(decode_connection(without).host, "");
    ConnectionInfo here = connection;
    here.host = "card";
    here.tag = std::string(32, 't');
    std::string with = encode(here);
    EXPECT_EQ(with[version_at], 5);
    EXPECT_EQ(decode_connection(with).host, "card");
    EXPECT_EQ(decode_connection(with).tag, here.tag);
    EXPECT_NE(signed_part(here), signed_part(connection));
    with[version_at] = 4;
    EXPECT_THROW(static_cast<void>(decode_connection(with)), Error);
    std::string empty = without;
    empty[version_at] = 5;  // what it has is not what that version wants
    EXPECT_THROW(static_cast<void>(decode_connection(empty)), Error);
}

/// Where its owner takes no WRITEs in messages, nothing differs, either.
TEST(Metadata, OnlyMemoryThatTakesMessagesNeedsTheLaterVersion) {
    constexpr std::size_t version_at = 5;
    std::string without = encode(memory);
    EXPECT_EQ(without[version_at], 4);
    EXPECT_FALSE(decode_memory(without).eager);
    without[version_at] = 5;  // what it has is not what that version wants
    EXPECT_THROW(static_cast<void>(decode_memory(without)), Error);
    MemoryInfo eager = memory;
    eager.eager = eager.writable = true;
    eager.needs_flush = false;
    std::string with = encode(eager);
    EXPECT_EQ(with[version_at], 5);
    EXPECT_TRUE(decode_memory(with).eager);
    EXPECT_EQ(decode_memory(with).token, memory.token);
    with[version_at] = 4;
    EXPECT_THROW(static_cast<void>(decode_memory(with)), Error);
    for (const auto spoil :
         {+[](MemoryInfo& info) { info.writable = false; },
          +[](MemoryInfo& info) { info.needs_flush = true; }, +[](MemoryInfo& info) { info.token = 0; }}) {
        MemoryInfo spoiled = eager;
        spoil(spoiled);
        EXPECT_THROW(static_cast<void>(decode_memory(encode(spoiled))), Error);
    }
}

/// So with GPU memory that other processes of the host map.
TEST(Metadata, OnlySharedGpuMemoryNeedsTheLatestVersion) {
    constexpr std::size_t version_at = 5;
    MemoryInfo staged = memory;
    staged.staged = true;
    staged.needs_flush = false;
    staged.rails.clear();
    staged.keys.clear();
    const cuda::SharedAllocation allocation{
        {'h', 'a', 'n', 'd'}, memory.address - 512, memory.length + 4096, 77};
    for (MemoryInfo shared : {memory, staged}) {
        EXPECT_EQ(encode(shared)[version_at], 4);
        EXPECT_FALSE(decode_memory(encode(shared)).shared);
        shared.shared = allocation;
        std::string with = encode(shared);
        EXPECT_EQ(with[version_at], 6);
        EXPECT_EQ(decode_memory(with).shared, allocation);
        EXPECT_EQ(decode_memory(with).token, memory.token);
        with[version_at] = 5;
        EXPECT_THROW(static_cast<void>(decode_memory(with)), Error);
        with[version_at] = 7;
        EXPECT_THROW(static_cast<void>(decode_memory(with)), Error);
        for (const auto spoil : {+[](MemoryInfo& info) { info.token = 0; },
                                 +[](MemoryInfo& info) { info.shared->length -= 4096; },
                                 +[](MemoryInfo& info) { info.shared->start += 513; },
                                 +[](MemoryInfo& info) { info.eager = true; }}) {
            MemoryInfo spoiled = shared;
            spoil(spoiled);
            EXPECT_THROW(static_cast<void>(decode_memory(encode(spoiled))), Error);
        }
        std::uint8_t version = 0;
        const std::string payload(
            unseal(EnvelopeKind::memory, encode(shared), 10'000, &version, shared_version));
        for (const std::string& wrong : {payload.substr(0, payload.size() - 1), payload + "x"})
            EXPECT_THROW(static_cast<void>(decode_memory(seal(EnvelopeKind::memory, wrong, shared_version))),
                         Error);
    }
    // Connection info knows no such version.
    std::string info = encode(connection);
    info[version_at] = 6;
    EXPECT_THROW(static_cast<void>(decode_connection(info)), Error);
}

TEST(Metadata, AHostPartHasItsLengthAndAnEnd) {
    const auto sealed = [](const std::string& payload) {
        return seal(EnvelopeKind::connection, payload, extended_version);
    };
    ConnectionInfo here = connection;
    here.host = std::string(max_address, 'h');
    std::uint8_t version = 0;
    const std::string good = encode(here), payload(unseal(EnvelopeKind::connection, good, 10'000, &version));
    EXPECT_EQ(decode_connection(good).host, here.host);
    here.host += 'h';
    EXPECT_THROW(static_cast<void>(decode_connection(encode(here))), Error);
    for (std::size_t size = 0; size < payload.size(); ++size)
        EXPECT_THROW(static_cast<void>(decode_connection(sealed(payload.substr(0, size)))), Error) << size;
    EXPECT_THROW(static_cast<void>(decode_connection(sealed(payload + '\0'))), Error);
    EXPECT_EQ(decode_connection(sealed(payload)).host.size(), max_address);
    // A length that leads out of it.
    std::string long_host = payload;
    long_host[payload.size() - 4 - max_address - 1] = '\xff';
    EXPECT_THROW(static_cast<void>(decode_connection(sealed(long_host))), Error);
}

TEST(Metadata, InconsistentFieldsAreRefused) {
    ConnectionInfo no_rails = connection;
    no_rails.rails.clear();
    EXPECT_THROW(static_cast<void>(decode_connection(encode(no_rails))), Error);
    ConnectionInfo nameless = connection;
    nameless.agent.clear();
    EXPECT_THROW(static_cast<void>(decode_connection(encode(nameless))), Error);
    MemoryInfo wrapping = memory;
    wrapping.length = UINT64_MAX;
    EXPECT_THROW(static_cast<void>(decode_memory(encode(wrapping))), Error);
    MemoryInfo stray_base = memory;
    stray_base.keys[0].address_base = 0x10;
    EXPECT_THROW(static_cast<void>(decode_memory(encode(stray_base))), Error);
    MemoryInfo disordered = memory;
    disordered.rails = {6, 6};
    EXPECT_THROW(static_cast<void>(decode_memory(encode(disordered))), Error);
    MemoryInfo staged_on_rails = memory;
    staged_on_rails.staged = true;
    EXPECT_THROW(static_cast<void>(decode_memory(encode(staged_on_rails))), Error);
    MemoryInfo keyless = memory;
    keyless.keys.clear();
    EXPECT_THROW(static_cast<void>(decode_memory(encode(keyless))), Error);
}

/// A liar can compute the checksum too: whatever is inside, decoding ends in a value or in Error.
TEST(Metadata, WellSealedNonsenseIsRefusedOrRead) {
    std::mt19937 random(5);
    const std::string good(unseal(EnvelopeKind::memory, encode(memory), 10'000));
    int refused = 0;
    for (int i = 0; i < 20'000; ++i) {
        std::string payload = good;
        for (unsigned n = 0; n < 1 + random() % 4; ++n)
            payload[random() % payload.size()] = static_cast<char>(random());
        if (random() % 4 == 0) payload.resize(random() % (payload.size() + 20));
        try {
            const MemoryInfo read = decode_memory(seal(EnvelopeKind::memory, payload));
            EXPECT_LE(read.length, UINT64_MAX - read.address);
        } catch (const Error&) {
            ++refused;
        }
        try {
            const ConnectionInfo read = decode_connection(seal(EnvelopeKind::connection, payload));
            EXPECT_FALSE(read.rails.empty());
        } catch (const Error&) {
            ++refused;
        }
    }
    EXPECT_GT(refused, 20'000);
}

/// Both are asked for as tcp: "set the same provider" would help nobody.
TEST(Metadata, OfAnotherLibfabricOverTcpIsRefusedAsThat) {
    EngineConfig config;
    config.agent_name = "ours";
    config.params = Params::parse({{"provider", "tcp"}, {"devices", "lo"}});
    Engine engine(config);
    ConnectionInfo info = decode_connection(engine.connection_info());
    const auto refusal = [&](const std::string& provider) -> std::string {
        info.agent = "agent";
        info.provider = provider;
        try {
            engine.load_connection_info("agent", encode(info));
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    };
    const std::string other = info.provider == "net" ? "tcp" : "net";
    EXPECT_NE(refusal(other).find("have the same release on both sides"), std::string::npos)
        << refusal(other);
    EXPECT_NE(refusal("efa").find("set the same provider on both sides"), std::string::npos);
}

}  // namespace
}  // namespace railyard
