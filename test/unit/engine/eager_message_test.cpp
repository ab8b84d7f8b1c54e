// Small WRITEs and READs in messages, as bytes: they come back as they were, and nonsense is refused.
#include "engine/eager_message.h"

#include <gtest/gtest.h>

#include <random>

#include "common/status.h"

namespace railyard {
namespace eager_message_test {

const std::string five("ab\0de", 5);

EagerMessage sample() {
    return {12, {{7, UINT64_MAX}, {{0x1000, 3, 0}, {0x9000, 2, 1}}}, five, true, "here it is"};
}

EagerRead sample_read() {
    return {12, 9, {{7, UINT64_MAX}, {{0x1000, 3, 0}, {0x9000, 2, 1}}}, true, "you may have it"};
}

void expect_refused(const EagerMessage& message) {
    EXPECT_THROW(static_cast<void>(decode_eager(encode(message))), Error);
}

TEST(EagerMessage, ComesBackAsItWas) {
    const std::string bytes = encode(sample());
    const EagerMessage got = decode_eager(bytes);
    EXPECT_EQ(got.id, 12u);
    EXPECT_EQ(got.layout.tokens, sample().layout.tokens);
    ASSERT_EQ(got.layout.pieces.size(), 2u);
    EXPECT_EQ(got.layout.pieces[1].address, 0x9000u);
    EXPECT_EQ(got.layout.pieces[1].length, 2u);
    EXPECT_EQ(got.layout.pieces[1].token, 1u);
    EXPECT_EQ(got.data, five);
    EXPECT_TRUE(got.notifies);
    EXPECT_EQ(got.text, "here it is");
    std::string reused(1000, 'x');
    begin_eager(reused, 12, encode(sample().layout), five.size());
    EXPECT_EQ(reused + five + '\1' + "here it is", bytes);
    EagerMessage silent = sample();
    silent.notifies = false;
    silent.text = "";
    EXPECT_FALSE(decode_eager(encode(silent)).notifies);
}

TEST(EagerMessage, InconsistentFieldsAreRefused) {
    EagerMessage message = sample();
    message.notifies = false;  // and there is a text
    expect_refused(message);
    std::string neither = encode(sample());
    neither[neither.size() - sample().text.size() - 1] = 2;
    EXPECT_THROW(static_cast<void>(decode_eager(neither)), Error);
    message = sample();
    for (const char* wrong : {"", "four", "sixsix"}) {
        message.data = wrong;
        expect_refused(message);
    }
    message = sample();
    message.layout.pieces[0].length = 0;
    message.data = "de";
    expect_refused(message);
    message = sample();
    message.layout.pieces[0].address = UINT64_MAX - 1;  // wraps
    expect_refused(message);
    message = sample();
    message.layout.pieces[1].token = 2;  // there are two
    expect_refused(message);
    message = sample();
    message.layout.pieces.clear();
    message.data = "";
    expect_refused(message);
    message = sample();
    message.layout.tokens.clear();
    expect_refused(message);
    message = sample();
    message.layout.tokens.resize(max_eager_tokens + 1);
    expect_refused(message);
    message = sample();
    message.layout.pieces.resize(max_eager_pieces + 1, {0x1000, 1, 0});
    const std::string many(max_eager_pieces + 4, 'x');
    message.data = many;
    expect_refused(message);
    const std::string most(max_eager_data, 'x'), more = most + 'x';
    message = {1, {{7}, {{0x1000, max_eager_data + 1, 0}}}, more, true, ""};
    expect_refused(message);
    message = {1, {{7}, {{0x1000, max_eager_data, 0}}}, most, true, ""};
    EXPECT_EQ(decode_eager(encode(message)).data.size(), max_eager_data);
}

TEST(EagerRead, ComesBackAsItWas) {
    const EagerRead sample = sample_read();
    const std::string bytes = encode(sample);
    const EagerRead got = decode_eager_read(bytes);
    EXPECT_EQ(got.id, 12u);
    EXPECT_EQ(got.done_below, 9u);
    EXPECT_EQ(got.layout.tokens, sample.layout.tokens);
    EXPECT_EQ(got.layout.total(), 5u);
    ASSERT_EQ(got.layout.pieces.size(), 2u);
    EXPECT_EQ(got.layout.pieces[1].address, 0x9000u);
    EXPECT_TRUE(got.notifies);
    EXPECT_EQ(got.text, "you may have it");
    std::string reused(1000, 'x');
    begin_eager_read(reused, 12, 9, encode(sample.layout));
    EXPECT_EQ(reused + '\1' + "you may have it", bytes);
    EagerRead silent = sample_read();
    silent.notifies = false;
    silent.text = "";
    EXPECT_FALSE(decode_eager_read(encode(silent)).notifies);
}

TEST(EagerRead, InconsistentFieldsAreRefused) {
    const auto expect_refused = [](const EagerRead& message) {
        EXPECT_THROW(static_cast<void>(decode_eager_read(encode(message))), Error);
    };
    EagerRead message = sample_read();
    message.notifies = false;  // and there is a text
    expect_refused(message);
    message = sample_read();
    message.layout.pieces[1].token = 2;  // there are two
    expect_refused(message);
    message = sample_read();
    message.layout.pieces.clear();
    expect_refused(message);
    message = sample_read();
    message.layout.pieces[0].length = max_eager_data - 2;
    EXPECT_EQ(decode_eager_read(encode(message)).layout.total(), max_eager_data);
    ++message.layout.pieces[0].length;  // more than an answer holds
    expect_refused(message);
    const std::string whole = encode(sample_read());
    for (std::size_t length = 0; length < whole.size() - sample_read().text.size(); ++length)
        EXPECT_THROW(static_cast<void>(decode_eager_read(whole.substr(0, length))), Error) << length;
}

TEST(EagerMessage, BytesOfAnyKindEndInAValueOrInAnError) {
    std::mt19937 random(12);
    const std::string good = encode(sample());
    int refused = 0;
    for (int i = 0; i < 20'000; ++i) {
        std::string bytes = good.substr(0, random() % (good.size() + 1));
        for (unsigned flips = random() % 4; flips != 0 && !bytes.empty(); --flips)
            bytes[random() % bytes.size()] = static_cast<char>(random());
        try {
            const EagerMessage got = decode_eager(bytes);
            std::size_t length = 0;
            for (const EagerPiece& piece : got.layout.pieces) {
                ASSERT_LT(piece.token, got.layout.tokens.size());
                length += piece.length;
            }
            ASSERT_EQ(length, got.data.size());
        } catch (const Error& error) {
            ++refused;
            ASSERT_EQ(error.status(), Status::mismatch);
        }
    }
    EXPECT_GT(refused, 10'000);
}

}  // namespace eager_message_test
}  // namespace railyard
