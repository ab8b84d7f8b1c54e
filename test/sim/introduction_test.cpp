// efa-direct refuses operations of endpoints that it does not know: how engines make themselves known, when
// messages are lost, peers are mute or restarted, and strangers lie.
#include <algorithm>
#include <cstring>
#include <random>

#include "common/log.h"
#include "engine/peer.h"
#include "simulated_machine.h"
#include "state_log.h"
#include "stranger.h"

namespace railyard::test {
namespace {

using std::chrono::milliseconds;

const Fabric direct{"efa-direct", 2, false};

/// A pair on NICs of their own, of which alpha alone has been told of beta.
struct OneSided {
    explicit OneSided(const ParamMap& extra = {})
        : a(engine("alpha", nic_of_a, extra)), b(engine("beta", nic_of_b, extra)), target(*b, size) {
        a->load_connection_info("beta", b->connection_info());
        source = std::make_unique<Buffer>(*a, size);
        fill_pattern(source->bytes, 1);
        remote = a->load_remote_memory("beta", b->memory_metadata(*target.region), target.address(), size);
    }
    static std::unique_ptr<Engine> engine(const std::string& name, const std::string& nic, ParamMap extra) {
        extra["devices"] = nic;
        return make_engine(name, {"efa-direct", 1, false}, extra);
    }
    Transfer* prepare() {
        const LocalDescriptor from = source->local(0, size);
        const RemoteDescriptor to{target.address(), size, &remote};
        return a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    }
    Status finish(Transfer& transfer, bool drive_target = true) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        Status status = a->poll(transfer);
        while (status == Status::in_progress && std::chrono::steady_clock::now() < end) {
            status = a->poll(transfer);
            if (drive_target) b->progress();
        }
        return status;
    }
    Status run(Transfer& transfer, bool drive_target = true) {
        const Status status = a->post(transfer);
        return status == Status::in_progress ? finish(transfer, drive_target) : status;
    }
    static constexpr std::size_t size = 100'000;
    static constexpr const char* nic_of_a = "rdmap79s0";
    static constexpr const char* nic_of_b = "rdmap80s0";
    std::unique_ptr<Engine> a, b;
    Buffer target;
    std::unique_ptr<Buffer> source;
    std::shared_ptr<RemoteRegion> remote;
};

TEST(Introductions, OneSideAloneHasToKnowTheOther) {
    OneSided pair;
    Transfer* transfer = pair.prepare();
    ASSERT_EQ(pair.a->post(*transfer), Status::in_progress) << "posted before the peer knew us";
    EXPECT_EQ(pair.finish(*transfer), Status::ok);
    EXPECT_TRUE(pair.target.bytes == pair.source->bytes);
    // From now on it takes nothing of the target.
    std::fill(pair.target.bytes.begin(), pair.target.bytes.end(), std::uint8_t{0});
    EXPECT_EQ(pair.run(*transfer, false), Status::ok);
    EXPECT_TRUE(pair.target.bytes == pair.source->bytes);
    pair.a->release(transfer);
}

TEST(Introductions, APeerIsConnectingUntilItHasSaidThatItKnowsUs) {
    const StateLog log;
    OneSided pair(
        ParamMap{{"connect_timeout_ms", "60000"}, {"peer_timeout_ms", "600000"}, {"keepalive_ms", "0"}});
    const auto state = [&] { return report_of(*pair.a, "beta").state; };
    const auto drive = [&](milliseconds limit, bool target_too, std::optional<PeerState> until) {
        const auto end = std::chrono::steady_clock::now() + limit;
        while (state() != until && std::chrono::steady_clock::now() < end) {
            pair.a->progress();
            if (target_too) pair.b->progress();
        }
    };
    EXPECT_EQ(state(), PeerState::unknown);
    Transfer* transfer = pair.prepare();
    ASSERT_EQ(pair.a->post(*transfer), Status::in_progress);
    drive(milliseconds(20'000), false, PeerState::connecting);
    drive(milliseconds(300), false, std::nullopt);
    EXPECT_EQ(state(), PeerState::connecting) << to_string(state());
    EXPECT_EQ(pair.finish(*transfer), Status::ok);
    drive(milliseconds(20'000), true, PeerState::ready);
    drive(milliseconds(600), true, std::nullopt);
    EXPECT_EQ(state(), PeerState::ready) << to_string(state());
    // Looked at many times, each change is told of once.
    const std::vector<std::string> changes{"connecting, was unknown", "ready, was connecting"};
    EXPECT_EQ(log.changes_of(report_of(*pair.a, "beta")), changes);
    pair.a->release(transfer);
}

TEST(Introductions, APeerThatNeverAnswersIsGivenUpInTime) {
    OneSided pair(ParamMap{{"connect_timeout_ms", "300"}});
    Transfer* transfer = pair.prepare();
    const auto start = std::chrono::steady_clock::now();
    ASSERT_EQ(pair.a->post(*transfer), Status::in_progress);
    EXPECT_EQ(pair.finish(*transfer, false), Status::remote_disconnect);
    const auto waited = std::chrono::steady_clock::now() - start;
    EXPECT_GE(waited, milliseconds(300));
    EXPECT_LT(waited, milliseconds(2300));
    // It was only slow: what it has not read yet still counts.
    EXPECT_EQ(pair.run(*transfer), Status::ok);
    EXPECT_TRUE(pair.target.bytes == pair.source->bytes);
    pair.a->release(transfer);
}

/// The transfer that waits for the answer gets it: nobody has to post again.
void lose_one_message_of(const char* nic) {
    OneSided pair(ParamMap{{"connect_timeout_ms", "8000"}});
    const Growth errors("errors", {"*", nic});
    const Disturbance lossy("error_next=1", {"*", nic});
    Transfer* transfer = pair.prepare();
    ASSERT_EQ(pair.a->post(*transfer), Status::in_progress);
    EXPECT_EQ(pair.finish(*transfer), Status::ok);
    EXPECT_EQ(errors.value(), 1u) << "nothing was lost";
    EXPECT_TRUE(pair.target.bytes == pair.source->bytes);
    pair.a->release(transfer);
}

TEST(Introductions, ALostHelloIsSaidAgain) {
    lose_one_message_of(OneSided::nic_of_a);
}

TEST(Introductions, ALostAnswerIsAskedForAgain) {
    lose_one_message_of(OneSided::nic_of_b);
}

/// Also where nobody posts or polls: a progress thread alone has to see it through.
TEST(Introductions, APeerThatHasForgottenUsIsToldAgain) {
    OneSided pair;
    Transfer* transfer = pair.prepare();
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    pair.b->load_connection_info("alpha", pair.a->connection_info());
    pair.b->disconnect("alpha");
    std::fill(pair.target.bytes.begin(), pair.target.bytes.end(), std::uint8_t{0});
    ASSERT_EQ(pair.a->post(*transfer), Status::in_progress);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    while (pair.target.bytes != pair.source->bytes && std::chrono::steady_clock::now() < end) {
        pair.a->progress();
        pair.b->progress();
    }
    EXPECT_TRUE(pair.target.bytes == pair.source->bytes);
    EXPECT_EQ(pair.finish(*transfer), Status::ok);
    pair.a->release(transfer);
}

TEST(Introductions, ARestartedInitiatorIntroducesItselfAnew) {
    OneSided pair;
    for (int life = 0; life < 3; ++life) {
        std::fill(pair.target.bytes.begin(), pair.target.bytes.end(), std::uint8_t{0});
        Transfer* transfer = pair.prepare();
        ASSERT_EQ(pair.run(*transfer), Status::ok);
        EXPECT_TRUE(pair.target.bytes == pair.source->bytes) << "life " << life;
        pair.a->release(transfer);
        pair.remote.reset();
        pair.source.reset();
        pair.a = OneSided::engine("alpha", OneSided::nic_of_a, {});
        pair.a->load_connection_info("beta", pair.b->connection_info());
        pair.source = std::make_unique<Buffer>(*pair.a, OneSided::size);
        fill_pattern(pair.source->bytes, static_cast<std::uint32_t>(life + 2));
        pair.remote = pair.a->load_remote_memory("beta", pair.b->memory_metadata(*pair.target.region),
                                                 pair.target.address(), OneSided::size);
    }
}

TEST(Introductions, ARestartedTargetIsToldAnew) {
    OneSided pair;
    Transfer* transfer = pair.prepare();
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    pair.a->release(transfer);
    pair.b = OneSided::engine("beta", OneSided::nic_of_b, {});
    Buffer fresh(*pair.b, OneSided::size);
    pair.a->load_connection_info("beta", pair.b->connection_info());
    pair.remote = pair.a->load_remote_memory("beta", pair.b->memory_metadata(*fresh.region), fresh.address(),
                                             OneSided::size);
    const LocalDescriptor from = pair.source->local(0, OneSided::size);
    const RemoteDescriptor to{fresh.address(), OneSided::size, &pair.remote};
    transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    EXPECT_EQ(pair.run(*transfer), Status::ok);
    EXPECT_TRUE(fresh.bytes == pair.source->bytes);
    pair.a->release(transfer);
}

class HostileTest : public testing::Test {
  protected:
    HostileTest() : victim_(make_engine("victim", direct)), stranger_(*victim_, direct) {}

    void expect_unanswered() { EXPECT_TRUE(stranger_.answers().empty()) << "a bad message was answered"; }

    std::unique_ptr<Engine> victim_;
    Stranger stranger_;
};

TEST_F(HostileTest, AHelloInAnothersNameIsRefused) {
    stranger_.say(MessageKind::hello, "gamma", stranger_.nonce, stranger_.hello());
    stranger_.say(MessageKind::hello, "mallory", stranger_.nonce + 1, stranger_.hello());
    expect_unanswered();
}

TEST_F(HostileTest, AHelloOfAnotherProviderIsRefused) {
    ConnectionInfo other = stranger_.info();
    other.provider = "efa";
    stranger_.say(MessageKind::hello, "mallory", stranger_.nonce,
                  encode(Introduction{other, introduced({{0, 0}})}));
    expect_unanswered();
}

TEST_F(HostileTest, AHelloToARailThatWeLackIsRefused) {
    stranger_.say(MessageKind::hello, "mallory", stranger_.nonce, stranger_.hello({{0, 0}, {1, 2}}));
    stranger_.say(MessageKind::hello, "mallory", stranger_.nonce, stranger_.hello({{0, UINT16_MAX}}));
    expect_unanswered();
}

TEST_F(HostileTest, AnotherInstancesNumberIsRefused) {
    expect_unanswered();
    Stranger second(*victim_, direct);
    ConnectionInfo liar = second.info();
    liar.agent = "gamma";  // with mallory's number
    second.say(MessageKind::hello, "gamma", liar.nonce, encode(Introduction{liar, introduced({{0, 0}})}));
    second.nonce = 0x7777;
    EXPECT_TRUE(second.answers().empty());
}

TEST_F(HostileTest, AProperHelloIsAnsweredWithItsPairs) {
    stranger_.say(MessageKind::hello, "mallory", stranger_.nonce, stranger_.hello({{0, 1}, {1, 0}}));
    const std::vector<Acknowledgement> answers = stranger_.answers();
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(answers[0].introduced_nonce, stranger_.nonce);
    EXPECT_EQ(answers[0].pairs, introduced({{0, 1}, {1, 0}}));
}

/// Who knows an instance's number could else take its place, or make it grow rails.
TEST_F(HostileTest, AnInstanceKeepsTheRailsOfItsFirstHello) {
    ConnectionInfo small = stranger_.info();
    small.agent = "small";
    small.nonce = 0x8888;
    small.rails.resize(1);
    stranger_.say(MessageKind::hello, "small", small.nonce,
                  encode(Introduction{small, introduced({{0, 0}})}));
    EXPECT_EQ(stranger_.answers().size(), 1u);
    small.rails = stranger_.info().rails;
    stranger_.say(MessageKind::hello, "small", small.nonce,
                  encode(Introduction{small, introduced({{1, 0}})}));
    small.rails = {stranger_.info().rails.back()};
    stranger_.say(MessageKind::hello, "small", small.nonce,
                  encode(Introduction{small, introduced({{0, 0}})}));
    expect_unanswered();
}

TEST_F(HostileTest, ALoadedInstanceKeepsTheRailsThatItWasLoadedWith) {
    ConnectionInfo loaded = stranger_.info();
    loaded.agent = "loaded";
    loaded.nonce = 0x8888;
    victim_->load_connection_info("loaded", encode(loaded));
    stranger_.say(MessageKind::hello, "loaded", loaded.nonce,
                  encode(Introduction{loaded, introduced({{0, 0}})}));
    EXPECT_EQ(stranger_.answers().size(), 1u);
    std::reverse(loaded.rails.begin(), loaded.rails.end());
    stranger_.say(MessageKind::hello, "loaded", loaded.nonce,
                  encode(Introduction{loaded, introduced({{0, 0}})}));
    expect_unanswered();
}

/// Else nothing would be forgotten for instances whose HELLOs all end with a pair that is refused.
TEST(Strangers, AreForgottenForWhatRefusedIntroductionsNamed) {
    EngineConfig config;
    config.agent_name = "victim";
    config.params = parse_params(fabric_params(direct));
    config.progress_thread = false;
    config.most_stranger_pairs = 11;
    Engine victim(std::move(config));
    Stranger honest(victim, direct), costly(victim, direct);
    honest.say(MessageKind::hello, "mallory", honest.nonce, honest.hello());  // 1, its 2 rails and a pair
    const auto heard = [&](MessageKind kind) {
        Letters letters;
        honest.inbox.take_letters(letters);
        return std::any_of(letters.begin(), letters.end(),
                           [&](const Letter& letter) { return letter.kind == kind; });
    };
    ASSERT_TRUE(honest.until([&] { return heard(MessageKind::hello_ack); }));
    const auto asks = [&] {
        const std::string no_number(4, '\0');
        honest.say(MessageKind::number_wanted, "mallory", honest.nonce, no_number);
        const auto end = std::chrono::steady_clock::now() + milliseconds(300);
        bool answered = false;
        honest.until([&] {
            answered = answered || heard(MessageKind::number);
            return answered || std::chrono::steady_clock::now() > end;
        });
        return answered;
    };
    EXPECT_TRUE(asks());
    ConnectionInfo info = costly.info();
    info.agent = "costly";
    info.nonce = 0x8888;
    info.rails.emplace_back("none");
    const auto name = [&](const std::vector<RailPair>& pairs) {
        costly.say(MessageKind::hello, info.agent, info.nonce, encode(Introduction{info, introduced(pairs)}));
        victim.progress();
    };
    name({{2, 0}});
    EXPECT_TRUE(asks()) << "1 and 3 rails more: 8 of 11";
    name({{0, 0}, {0, 1}, {2, 0}});
    EXPECT_TRUE(asks()) << "10";
    name({{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}});
    EXPECT_FALSE(asks()) << "12: it is the one that was not heard for longest";
}

TEST_F(HostileTest, FuzzedMessagesAreNeitherAnsweredNorHarmful) {
    log::set_level(log::Level::off);
    std::mt19937 random(9);
    const std::string hello = stranger_.hello();
    // Behind the connection info, which a checksum covers, lie the count and one pair.
    const std::size_t sealed = hello.size() - 14;
    for (int round = 0; round < 3000; ++round) {
        std::string text = hello;
        switch (round % 4) {
            case 0:
                text[random() % sealed] ^= static_cast<char>(1u << random() % 8);
                break;
            case 1:
                text.resize(random() % hello.size());
                break;
            case 2:
                text.append(random() % 20 + 1, static_cast<char>(random()));
                break;
            default:
                text.resize(random() % 200);
                for (char& byte : text)
                    byte = static_cast<char>(random());
        }
        const auto kind = round % 3 ? MessageKind::hello : MessageKind::hello_ack;
        stranger_.say(kind, "mallory", stranger_.nonce, text);
    }
    expect_unanswered();
    log::set_level(log::Level::warn);
    // The engine still works for others.
    EnginePair pair(direct);
    Buffer source(*pair.a, 5000), target(*pair.b, 5000);
    fill_pattern(source.bytes, 3);
    const auto remote = pair.publish(target);
    const LocalDescriptor from = source.local(0, 5000);
    const RemoteDescriptor to{target.address(), 5000, &remote};
    Transfer* transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    EXPECT_EQ(pair.run(*transfer), Status::ok);
    pair.a->release(transfer);
}

TEST(ForgedAnswers, DoNotOpenTheGate) {
    OneSided pair(ParamMap{{"connect_timeout_ms", "20000"}});
    const ConnectionInfo beta = decode_connection(pair.b->connection_info());
    const ConnectionInfo alpha = decode_connection(pair.a->connection_info());
    Stranger stranger(*pair.a, direct);
    Transfer* transfer = pair.prepare();
    const Growth writes("writes", {"*", OneSided::nic_of_a});
    ASSERT_EQ(pair.a->post(*transfer), Status::in_progress);
    const std::vector<IntroducedPair> pairs = introduced({{0, 0}});
    stranger.say(MessageKind::hello_ack, "beta", beta.nonce, encode_acknowledgement(alpha.nonce + 1, pairs));
    stranger.say(MessageKind::hello_ack, "beta", beta.nonce + 1, encode_acknowledgement(alpha.nonce, pairs));
    stranger.say(MessageKind::hello_ack, "mallory", beta.nonce, encode_acknowledgement(alpha.nonce, pairs));
    stranger.say(MessageKind::hello_ack, "beta", beta.nonce,
                 encode_acknowledgement(alpha.nonce, introduced({{3, 4}})));
    EXPECT_TRUE(stranger.answers().empty());  // so all of these have been read
    EXPECT_EQ(pair.a->poll(*transfer), Status::in_progress);
    EXPECT_EQ(writes.value(), 0u) << "written before beta said that it knows us";
    EXPECT_EQ(pair.finish(*transfer), Status::ok);
    EXPECT_GT(writes.value(), 0u);
    pair.a->release(transfer);
}

}  // namespace
}  // namespace railyard::test
