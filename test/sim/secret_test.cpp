// Engines with a secret, and strangers without it, over NICs that want introductions.
#include <algorithm>

#include "engine/message_auth.h"
#include "log_lines.h"
#include "simulated_machine.h"
#include "stranger.h"

namespace railyard::test {
namespace {

constexpr const char* secret = "what the engines of this test share";
constexpr const char* other_secret = "what other engines share";
const Fabric two_rails{"efa-direct", 2, false};

class ClusterSecretTest : public testing::Test {
  protected:
    void SetUp() override {
        if (!find_libcrypto().functions) GTEST_SKIP() << "no libcrypto: " << find_libcrypto().absent_because;
    }
    void TearDown() override {
        for (const char* text : {secret, other_secret})
            EXPECT_FALSE(said(text)) << "a secret is in the log";
    }
    static bool said(const char* text) { return LogLines::contain(text); }
    static std::unique_ptr<Engine> engine(const std::string& name, const char* with) {
        return make_engine(
            name, two_rails,
            {{"cluster_secret", with}, {"connect_timeout_ms", "300"}, {"peer_timeout_ms", "500"}});
    }
    /// A WRITE with a notification from `a` to `b`, after `a` was told `info`.
    static Status write(Engine& a, Engine& b, const std::string& info) {
        a.load_connection_info("beta", info);
        Buffer source(a, 100'000), target(b, 100'000);
        fill_pattern(source.bytes, 3);
        const auto remote =
            a.load_remote_memory("beta", b.memory_metadata(*target.region), target.address(), 100'000);
        const LocalDescriptor from = source.local(0, 100'000);
        const RemoteDescriptor to{target.address(), 100'000, &remote};
        Transfer* transfer = a.prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", "arrived");
        Status status = a.post(*transfer);
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (status == Status::in_progress && std::chrono::steady_clock::now() < end) {
            status = a.poll(*transfer);
            b.progress();
        }
        EXPECT_EQ(target.bytes == source.bytes, status == Status::ok)
            << "bytes arrived, and the status says otherwise";
        a.release(transfer);
        return status;
    }

    LogLines lines_{log::Level::trace};
};

TEST_F(ClusterSecretTest, TransfersAndNotificationsWorkUnderIt) {
    const auto a = engine("alpha", secret), b = engine("beta", secret);
    EXPECT_EQ(write(*a, *b, b->connection_info()), Status::ok);
    std::vector<Notification> got;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (got.empty() && std::chrono::steady_clock::now() < end) {
        a->progress();
        b->take_notifications(got);
    }
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].message, "arrived");
    EXPECT_EQ(got[0].agent, "alpha");
}

TEST_F(ClusterSecretTest, EnginesThatDoNotShareItRefuseEachOther) {
    const auto with = engine("with", secret), without = engine("without", ""),
               another = engine("another", other_secret);
    const auto refused = [](Engine& by, const std::string& name, Engine& whom) {
        expect_error(Status::mismatch, "cluster_secret",
                     [&] { by.load_connection_info(name, whom.connection_info()); });
    };
    refused(*with, "without", *without);
    refused(*without, "with", *with);
    refused(*with, "another", *another);
    refused(*another, "with", *with);
}

/// The damage would be found by nobody but the tag: the envelope's checksum is right.
TEST_F(ClusterSecretTest, ForgedConnectionInfoIsRefused) {
    const auto a = engine("alpha", secret), b = engine("beta", secret);
    ConnectionInfo forged = decode_connection(b->connection_info());
    forged.nonce ^= 1;  // recorded of another instance
    expect_error(Status::mismatch, "cluster_secret",
                 [&] { a->load_connection_info("beta", encode(forged)); });
    forged.nonce ^= 1;
    std::swap(forged.rails[0], forged.rails[1]);
    expect_error(Status::mismatch, "cluster_secret",
                 [&] { a->load_connection_info("beta", encode(forged)); });
    std::swap(forged.rails[0], forged.rails[1]);
    a->load_connection_info("beta", encode(forged));
}

/// Alpha believes that beta shares its secret: its HELLO gets no answer, and the transfer ends in time.
TEST_F(ClusterSecretTest, AHelloUnderAnotherSecretEndsInTheTimeout) {
    for (const char* of_beta : {"", other_secret}) {
        const auto a = engine("alpha", secret), b = engine("beta", of_beta);
        ConnectionInfo info = decode_connection(b->connection_info());
        const MessageAuth::Tag tag =
            MessageAuth(secret).tag(MessageAuth::Use::connection_info, signed_part(info));
        info.tag.assign(tag.begin(), tag.end());
        EXPECT_EQ(write(*a, *b, encode(info)), Status::remote_disconnect);
        EXPECT_TRUE(said("cluster_secret is not the same")) << "beta does not say why it does not answer";
        LogLines::clear();
    }
}

TEST_F(ClusterSecretTest, AStrangersHelloIsNotAnswered) {
    const auto victim = engine("victim", secret);
    Stranger friendly(*victim, two_rails, secret, secret);
    for (const char* with : {"", other_secret}) {
        Stranger stranger(*victim, two_rails, with, secret);
        stranger.nonce = 0x7777;
        stranger.say(MessageKind::hello, "mallory", stranger.nonce, stranger.hello());
        stranger.say(MessageKind::notify, "alpha", 1, "a notification in alpha's name");
        EXPECT_TRUE(friendly.answers().empty());  // and so the victim has read what was said before
        Letters letters;
        stranger.progress();
        stranger.inbox.take_letters(letters);
        EXPECT_TRUE(letters.empty()) << "a stranger has been answered";
    }
    std::vector<Notification> got;
    victim->take_notifications(got);
    EXPECT_TRUE(got.empty());
    EXPECT_TRUE(said("cluster_secret is not the same"));
}

}  // namespace
}  // namespace railyard::test
