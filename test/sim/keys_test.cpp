// Strangers that ask for the keys of an engine's memory.
#include "engine/metadata.h"
#include "engine/request.h"
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

}  // namespace
}  // namespace railyard::test
