// Questions about the keys of memory: of strangers, to strangers, and to nobody who answers.
#include <time.h>

#include <algorithm>

#include "engine/metadata.h"
#include "engine/request.h"
#include "engine/transfer.h"
#include "log_lines.h"
#include "simulated_machine.h"
#include "stranger.h"

namespace railyard::test {
namespace {

class KeysTest : public testing::Test {
  protected:
    KeysTest() { mallory_.say(MessageKind::hello, "mallory", mallory_.nonce, mallory_.hello()); }

    KeyTable ask(KeyQuestion question) {
        question.id = ++asked_;
        mallory_.say(MessageKind::keys_asked, "mallory", mallory_.nonce, encode(question));
        std::optional<KeyTable> answer;
        EXPECT_TRUE(mallory_.until([&] {
            Letters letters;
            mallory_.inbox.take_letters(letters);
            for (const Letter& letter : letters) {
                if (letter.kind != MessageKind::keys) continue;
                const KeyAnswer heard = decode_key_answer(letter.text);
                if (heard.id == asked_) answer = heard.memory;
            }
            return answer.has_value();
        })) << "a question is not answered";
        return answer.value_or(KeyTable{});
    }

    const Fabric fabric_{"efa-direct", 2, false};
    std::unique_ptr<Engine> victim_ = make_engine("victim", fabric_, {{"keep_keys", "always"}});
    Stranger mallory_{*victim_, fabric_};
    std::uint64_t asked_ = 0;
};

TEST_F(KeysTest, AreToldToThoseWhoHaveBeenToldOneBefore) {
    Buffer buffer(*victim_, 4096);
    const auto described = [&] { return decode_memory(victim_->memory_metadata(*buffer.region)); };
    const MemoryInfo first = described();
    ASSERT_EQ(first.rails.size(), 2U);
    const KeyQuestion question{0, buffer.address(), 4096, 0, 0, first.keys[0].key, 1, first.keys[1].key};
    EXPECT_EQ(ask(question).keys[1].key, first.keys[1].key) << "it is still good";

    victim_->deregister_memory(buffer.region);
    EXPECT_TRUE(ask(question).rails.empty()) << "it is not registered";

    Buffer between(*victim_, 4096);  // which may have the old ones
    buffer.region = victim_->register_memory(buffer.address(), 4096, 0);
    EXPECT_EQ(described().keys[0].key, first.keys[0].key);
    const KeyTable present = ask(question);
    EXPECT_EQ(present.rails, first.rails);
    for (std::size_t i = 0; i < present.keys.size(); ++i)
        EXPECT_NE(present.keys[i].key, first.keys[i].key) << i;

    for (const KeyQuestion& wrong :
         {KeyQuestion{0, buffer.address(), 4096, 0, 0, first.keys[0].key ^ 0x5a5a0000, 1, first.keys[1].key},
          KeyQuestion{0, buffer.address(), 4096, 0, 1, first.keys[0].key, 1, first.keys[1].key},
          KeyQuestion{0, buffer.address(), 4095, 0, 0, first.keys[0].key, 1, first.keys[1].key},
          KeyQuestion{0, buffer.address() + 1, 4096, 0, 0, first.keys[0].key, 1, first.keys[1].key},
          KeyQuestion{0, buffer.address(), 4096, 1, 0, first.keys[0].key, 1, first.keys[1].key}})
        EXPECT_TRUE(ask(wrong).rails.empty());
}

std::uint64_t cpu_ns() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

/// Peers ask once for each range: looking through all of them each time took the square of their number.
TEST_F(KeysTest, AreFoundAsFastAmongManyRanges) {
    constexpr std::size_t page = 4096, count = 20'000;
    Buffer buffer(*victim_, page);
    const MemoryInfo first = decode_memory(victim_->memory_metadata(*buffer.region));
    const std::uint64_t refused = first.keys[1].key ^ 1;  // which none has: the look ends with the last one
    const KeyQuestion question{0, buffer.address(), page, 0, 0, first.keys[0].key, 1, refused};
    const auto cost = [&] {
        std::uint64_t least = UINT64_MAX;
        for (int i = 0; i < 30; ++i) {
            const std::uint64_t begin = cpu_ns();
            EXPECT_EQ(ask(question).keys.size(), 2U);
            least = std::min(least, cpu_ns() - begin);
        }
        return least;
    };
    const std::uint64_t alone = cost();
    const std::vector<std::uint8_t> others(count * page);
    for (std::size_t i = 0; i < count; ++i)
        static_cast<void>(
            victim_->register_memory(reinterpret_cast<std::uint64_t>(others.data()) + i * page, page, 0));
    const std::uint64_t among_many = cost();
    EXPECT_LT(among_many, 10 * alone) << alone << " and " << among_many << " ns";
}

/// As of a range whose pages lie on another NUMA node once it is registered again.
TEST_F(KeysTest, OfOtherRailsThanItIsKnownOnAreOfNoUse) {
    const LogLines log(log::Level::info);
    const std::vector<std::uint8_t> theirs(4096);
    const auto address = reinterpret_cast<std::uint64_t>(theirs.data());
    MemoryInfo described;
    described.nonce = mallory_.nonce;
    described.provider = mallory_.rails->provider();
    described.address = address;
    described.length = theirs.size();
    const auto region = mallory_.rails->register_memory(address, theirs.size(), 0);
    described.rails = {0};
    described.keys = {region->own_keys().front()};
    mallory_.rails->deregister_memory(*region);

    victim_->load_connection_info("mallory", encode(mallory_.info()));
    const auto remote = victim_->load_remote_memory("mallory", encode(described), address, theirs.size());
    const Buffer source(*victim_, theirs.size());
    const LocalDescriptor from = source.local(0, theirs.size());
    const RemoteDescriptor to{address, theirs.size(), &remote};
    Transfer* const transfer =
        victim_->prepare(Operation::write, {&from, 1}, {&to, 1}, "mallory", std::nullopt);
    Status status = victim_->post(*transfer);
    EXPECT_TRUE(mallory_.until([&] {
        Letters letters;
        mallory_.inbox.take_letters(letters);
        for (const Letter& letter : letters) {
            if (letter.kind == MessageKind::hello) mallory_.acknowledge(letter);
            if (letter.kind != MessageKind::keys_asked) continue;
            const KeyAnswer answer{decode_key_question(letter.text).id, {{1}, described.keys}};
            mallory_.say(MessageKind::keys, "mallory", mallory_.nonce, encode(answer));
        }
        return (status = victim_->poll(*transfer)) != Status::in_progress;
    }));
    EXPECT_EQ(status, Status::backend);
    EXPECT_TRUE(LogLines::contain("its memory is on other rails now")) << "it is to be described anew";
    victim_->release(transfer);
}

/// A WRITE whose key is refused, by an owner that has gone, or that nobody drives: it would hear of each
/// question, and has to have a receive buffer for it.
void is_forgotten(bool destroyed) {
    const Fabric fabric{"efa-direct", 2, false};
    const LogLines log(log::Level::debug);
    EnginePair pair(fabric, fabric,
                    {{"keep_keys", "always"}, {"connect_timeout_ms", "200"}, {"keepalive_ms", "0"}});
    const Buffer source(*pair.a, 4096, 7);
    Buffer target(*pair.b, 4096);
    const auto remote = pair.publish(target);
    const LocalDescriptor from = source.local(0, 4096);
    const RemoteDescriptor to{target.address(), 4096, &remote};
    Transfer* const transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    pair.b->deregister_memory(target.region);
    const auto asked = [] {
        return LogLines::count("asked which keys its memory") +
               LogLines::count("could not be asked for keys");
    };
    const auto drive = [&](int ms) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
        for (Patience loop; std::chrono::steady_clock::now() < end; loop.turn())
            pair.a->progress();
    };
    const Status posted = pair.a->post(*transfer);
    for (int i = 0; i < 1000 && asked() == 0; ++i)
        drive(1);
    ASSERT_GT(asked(), 0);
    if (destroyed) pair.b.reset();
    const Status ended = wait_alone(*pair.a, *transfer, posted);
    ASSERT_NE(ended, Status::in_progress);
    if (!destroyed) {
        EXPECT_EQ(ended, Status::backend);
    }
    drive(1000);
    const long before = asked();
    const Growth sends("sends");
    drive(2500);
    EXPECT_EQ(asked(), before);
    if (!destroyed) {
        EXPECT_EQ(sends.value(), 0u) << "nothing is told the owner either";
        target.region = pair.b->register_memory(target.address(), 4096, 0);
        EXPECT_EQ(pair.run(*transfer), Status::ok) << "a later refusal asks anew";
    }
    pair.a->release(transfer);
}

TEST(KeyQuestions, ThatAnOwnerDoesNotAnswerWhomNobodyDrivesAreForgotten) {
    is_forgotten(false);
}

TEST(KeyQuestions, ThatAnOwnerDoesNotAnswerWhoHasGoneAreForgotten) {
    is_forgotten(true);
}

}  // namespace
}  // namespace railyard::test
