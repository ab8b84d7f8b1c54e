// Sources that a target finds gone while a link is down, and that notice nothing of it; and the other way
// round. On simulated EFA NICs.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "flow/initiator.h"
#include "flow/target.h"
#include "log_lines.h"
#include "simulated_machine.h"

namespace railyard::flow {
namespace {

using test::cluster;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t length = 4096;
constexpr const char* nic_of_target = "rdmap113s0";
constexpr const char* nic_of_others = "rdmap114s0";
constexpr const char* shaky_nic = "rdmap115s0";

/// An initiator that writes its letters itself, and grains never: those it only tells of.
class Sender {
  public:
    Sender(const TargetInfo& info, int number, const char* nic)
        : name_("sender-" + std::to_string(number)), target_(info.id()) {
        EngineConfig config;
        config.agent_name = name_;
        config.params = Params::parse({{"provider", "efa"}, {"devices", nic}, {"local_rail", "off"}});
        engine_ = std::make_unique<Engine>(config);
        engine_->load_connection_info(target_, encode(info.connection));
    }
    void open() { open_from(engine_->connection_info()); }
    /// From where nobody can be reached.
    void open_from_nowhere() {
        ConnectionInfo info = decode_connection(engine_->connection_info());
        for (std::string& rail : info.rails)
            rail = "nowhere";
        open_from(encode(info));
    }
    void send_grain(std::uint32_t round) {
        send({.kind = LetterKind::grain, .opening = opening_, .round = round, .count = 1});
    }
    /// The next letter of this opening; nothing within `limit`.
    std::optional<FlowLetter> hear(std::chrono::milliseconds limit = std::chrono::seconds(10)) {
        for (const auto end = Clock::now() + limit; Clock::now() < end;) {
            engine_->progress();
            std::vector<Notification> heard;
            engine_->take_notifications(heard);
            for (const Notification& each : heard) {
                const FlowLetter letter = decode_letter(each.message);
                if (letter.opening == opening_) return letter;
            }
        }
        return std::nullopt;
    }
    void expect(LetterKind kind) {
        const auto letter = hear();
        ASSERT_TRUE(letter) << name_;
        EXPECT_EQ(letter->kind, kind) << name_;
    }
    [[nodiscard]] std::string name() const { return name_; }

  private:
    void open_from(const std::string& connection) {
        send({.kind = LetterKind::open, .opening = ++opening_, .unit = length, .connection = connection});
    }
    void send(const FlowLetter& letter) { engine_->send_notification(target_, encode(letter)); }

    std::string name_, target_;
    std::unique_ptr<Engine> engine_;
    std::uint32_t opening_ = 0;
};

class SetAside : public testing::Test {
  protected:
    SetAside() : memory_(length) {
        cluster().reset();
        cluster().set("timeout_ms=100");
        setenv("RAILYARD_KEEPALIVE_MS", "50", 1);
        setenv("RAILYARD_PEER_TIMEOUT_MS", "3000", 1);
        target_ = std::make_unique<Target>(config_on(nic_of_target));
    }
    ~SetAside() override {
        cluster().reset();
        for (const char* name : {"RAILYARD_KEEPALIVE_MS", "RAILYARD_PEER_TIMEOUT_MS"})
            unsetenv(name);
    }
    /// All over the same memory.
    SideConfig config_on(const char* nic) {
        SideConfig config{.providers = {"efa"}, .devices = nic, .regions = {}};
        config.regions.push_back({reinterpret_cast<std::uint64_t>(memory_.data()), length});
        return config;
    }
    [[nodiscard]] std::optional<SourceReport> source(std::uint32_t id) {
        for (const SourceReport& each : target_->sources()) {
            if (each.id == id) return each;
        }
        return std::nullopt;
    }
    /// All numbers but the first.
    [[nodiscard]] std::vector<std::unique_ptr<Sender>> fill_up() {
        std::vector<std::unique_ptr<Sender>> others;
        for (int i = 1; i < static_cast<int>(most_sources); ++i) {
            others.push_back(std::make_unique<Sender>(target_->info(), i, nic_of_others));
            others.back()->open();
            others.back()->expect(LetterKind::taken);
        }
        return others;
    }
    /// Until the target has found it gone, and what it sent then is lost.
    void take_the_link_down() {
        cluster().set("link=down", {"*", shaky_nic});
        for (const auto end = Clock::now() + std::chrono::seconds(20); source(0)->connected;)
            ASSERT_LT(Clock::now(), end);
        std::this_thread::sleep_for(std::chrono::milliseconds(400));  // several timeout_ms
        cluster().set("link=up", {"*", shaky_nic});
    }

    std::vector<unsigned char> memory_;
    std::unique_ptr<Target> target_;
};

/// Grains come with immediate data, which names a number alone.
TEST_F(SetAside, AnInitiatorThatIsBackIsTold) {
    setenv("RAILYARD_KEEPALIVE_MS", "0", 1);  // it does not look for its target, and so does not miss it
    Initiator initiator(config_on(shaky_nic));
    std::string what;
    initiator.add_target(target_->info());
    ASSERT_EQ(initiator.make_progress(10'000, what), Outcome::ok) << what;
    ASSERT_NO_FATAL_FAILURE(take_the_link_down());
    const Slices all{0, 0};
    GrainBoard::Arrived grain;
    Outcome outcome = Outcome::ok;
    std::uint64_t sent = 0;
    for (const auto end = Clock::now() + std::chrono::seconds(5);
         Clock::now() < end && outcome != Outcome::disconnected;) {
        ASSERT_EQ(initiator.transfer(0, all), Outcome::ok);
        ++sent;
        outcome = initiator.make_progress(10'000, what);
        target_->wait_for_new_grain(grain, 50);
    }
    ASSERT_EQ(outcome, Outcome::disconnected) << sent << " grains were sent";
    EXPECT_NE(what.find("could not reach this initiator"), std::string::npos) << what;
    EXPECT_NE(what.find("add it again"), std::string::npos) << what;
    initiator.add_target(target_->info());
    ASSERT_EQ(initiator.make_progress(10'000, what), Outcome::ok) << what;
    EXPECT_TRUE(source(0)->connected);
}

/// Else messages about grains would be dropped without end, and their sender would hear that all is well.
TEST_F(SetAside, AGrainThatAMessageTellsOfIsTakenAndAnswered) {
    Sender sender(target_->info(), 0, shaky_nic);
    sender.open();
    sender.expect(LetterKind::taken);
    ASSERT_NO_FATAL_FAILURE(take_the_link_down());
    sender.send_grain(1);
    sender.expect(LetterKind::close);
    EXPECT_EQ(source(0)->counters.grains, 1u);
    EXPECT_FALSE(source(0)->connected);
    sender.open();
    sender.expect(LetterKind::taken);
    EXPECT_TRUE(source(0)->connected);
}

/// Else it would be connected for ever, and nobody would look whether it is gone.
TEST_F(SetAside, AnInitiatorThatCannotBeReachedTakesNoNumber) {
    const test::LogLines lines(log::Level::warn);
    Sender unreachable(target_->info(), 0, nic_of_others), next(target_->info(), 1, nic_of_others);
    unreachable.open_from_nowhere();
    for (const auto end = Clock::now() + std::chrono::seconds(10);
         !test::LogLines::contain(unreachable.name()) && Clock::now() < end;)
        EXPECT_FALSE(unreachable.hear(std::chrono::milliseconds(10)));
    EXPECT_TRUE(test::LogLines::contain(unreachable.name() + " cannot be answered"));
    next.open();
    const auto answer = next.hear();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->kind, LetterKind::taken);
    EXPECT_EQ(answer->source, 0u);
    EXPECT_EQ(source(0)->name, next.name());
    EXPECT_FALSE(source(1));
}

/// The target's engine has found it gone already, and the target, which looks once a second, has not: it
/// finds out with the opening before it.
TEST_F(SetAside, OneThatOpensAgainAtOnceIsAnswered) {
    setenv("RAILYARD_KEEPALIVE_MS", "0", 1);  // it does not look for its target, and so does not miss it
    Sender sender(target_->info(), 0, shaky_nic);
    const test::LogLines lines(log::Level::info);
    const std::string gone = ": gone, was ", noticed = sender.name() + ", is gone";
    int tries = 0;
    for (bool in_time = false; !in_time; ++tries) {
        ASSERT_LT(tries, 10);
        sender.open();
        ASSERT_NO_FATAL_FAILURE(sender.expect(LetterKind::taken)) << "try " << tries;
        test::LogLines::clear();
        cluster().set("link=down", {"*", shaky_nic});
        for (const auto end = Clock::now() + std::chrono::seconds(20); !test::LogLines::contain(gone);) {
            ASSERT_LT(Clock::now(), end);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        in_time = !test::LogLines::contain(noticed);
        cluster().set("link=up", {"*", shaky_nic});
    }
    sender.open();
    sender.expect(LetterKind::taken);
    const auto now = source(0);
    ASSERT_TRUE(now);
    EXPECT_TRUE(now->connected);
}

/// While it may write on. Where it does so after all, it is told.
TEST_F(SetAside, ItsNumberIsNotGivenAtOnce) {
    Sender sender(target_->info(), 0, shaky_nic);
    sender.open();
    sender.expect(LetterKind::taken);
    const auto others = fill_up();
    ASSERT_NO_FATAL_FAILURE(take_the_link_down());
    Sender next(target_->info(), 100, nic_of_others);
    next.open();
    const auto refusal = next.hear();
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->kind, LetterKind::refused);
    unsigned long free_in_ms = 0;
    ASSERT_EQ(
        std::sscanf(refusal->reason.c_str(),
                    "it has 16 sources already, of which one is gone: its number becomes free in %lu ms",
                    &free_in_ms),
        1)
        << refusal->reason;
    EXPECT_GT(free_in_ms, 0u);
    EXPECT_LE(free_in_ms, 3000u);
    std::optional<FlowLetter> answer;
    for (const auto end = Clock::now() + std::chrono::seconds(20);
         !answer || answer->kind == LetterKind::refused;) {
        ASSERT_LT(Clock::now(), end);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));  // nothing else than that time must pass
        next.open();
        answer = next.hear();
        ASSERT_TRUE(answer);
    }
    EXPECT_EQ(answer->source, 0u);
    EXPECT_EQ(source(0)->name, next.name());
    sender.send_grain(1);
    sender.expect(LetterKind::close);
    EXPECT_EQ(source(0)->counters.grains, 0u) << "of another source";
}

/// Nobody has asked who is there since it went: its time has passed all the same.
TEST_F(SetAside, ItsNumberIsFreeLongAfter) {
    setenv("RAILYARD_PEER_TIMEOUT_MS", "1000", 1);
    target_ = std::make_unique<Target>(config_on(nic_of_target));
    const test::LogLines lines(log::Level::info);
    Sender sender(target_->info(), 0, shaky_nic);
    sender.open();
    sender.expect(LetterKind::taken);
    const auto others = fill_up();
    cluster().set("link=down", {"*", shaky_nic});
    const std::string gone = sender.name() + ", is gone";
    for (const auto end = Clock::now() + std::chrono::seconds(20); !test::LogLines::contain(gone);) {
        ASSERT_LT(Clock::now(), end);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1000 + 1000));  // peer_timeout_ms, and a while
    Sender next(target_->info(), 100, nic_of_others);
    next.open();
    const auto answer = next.hear();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->kind, LetterKind::taken) << answer->reason;
    EXPECT_EQ(answer->source, 0u);
}

/// The other way round: its initiator alone has found the link down, and does not call any more.
TEST_F(SetAside, ATargetThatHasMissedNothingIsToldOfItsRemoval) {
    setenv("RAILYARD_KEEPALIVE_MS", "0", 1);
    target_ = std::make_unique<Target>(config_on(nic_of_target));
    setenv("RAILYARD_KEEPALIVE_MS", "50", 1);
    Initiator initiator(config_on(shaky_nic));
    std::string what;
    initiator.add_target(target_->info());
    ASSERT_EQ(initiator.make_progress(10'000, what), Outcome::ok) << what;
    cluster().set("link=down", {"*", shaky_nic});
    Outcome outcome = Outcome::ok;
    for (const auto end = Clock::now() + std::chrono::seconds(10);
         Clock::now() < end && outcome != Outcome::disconnected;)
        outcome = initiator.make_progress(what);
    ASSERT_EQ(outcome, Outcome::disconnected);
    std::this_thread::sleep_for(std::chrono::milliseconds(400));  // several timeout_ms, and it stays down
    EXPECT_TRUE(source(0)->connected);
    cluster().set("link=up", {"*", shaky_nic});
    for (const auto end = Clock::now() + std::chrono::seconds(10);
         source(0)->connected && Clock::now() < end;)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_FALSE(source(0)->connected);
    initiator.add_target(target_->info());
    ASSERT_EQ(initiator.make_progress(10'000, what), Outcome::ok) << what;
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // what it was told before is over
    EXPECT_TRUE(source(0)->connected);
}

}  // namespace
}  // namespace railyard::flow
