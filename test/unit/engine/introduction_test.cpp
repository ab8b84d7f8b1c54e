// HELLO and HELLO_ACK to and from bytes; whatever a stranger sends is refused whole or understood whole.
#include "engine/introduction.h"

#include <gtest/gtest.h>

#include <random>

#include "common/status.h"

namespace railyard {
namespace introduction_test {

Introduction sample() {
    return {{"alpha", 0x1122334455667788, "efa-direct", {"address 0", "address 1", "address 2"}},
            {{{0, 0}, 1, "sender 0"}, {{1, 7}, 3, ""}, {{2, 31}, UINT32_MAX, "sender 2"}}};
}

void expect_refused(std::string_view bytes) {
    try {
        static_cast<void>(decode_introduction(bytes));
        ADD_FAILURE() << "understood";
    } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::mismatch) << error.what();
    }
}

TEST(Introduction, SurvivesTheTrip) {
    const Introduction sent = sample();
    const Introduction got = decode_introduction(encode(sent));
    EXPECT_EQ(got.sender.agent, sent.sender.agent);
    EXPECT_EQ(got.sender.nonce, sent.sender.nonce);
    EXPECT_EQ(got.sender.provider, sent.sender.provider);
    EXPECT_EQ(got.sender.rails, sent.sender.rails);
    EXPECT_EQ(got.pairs, sent.pairs);
    const Acknowledgement answer =
        decode_acknowledgement(encode_acknowledgement(sent.sender.nonce, sent.pairs));
    EXPECT_EQ(answer.introduced_nonce, sent.sender.nonce);
    ASSERT_EQ(answer.pairs.size(), sent.pairs.size());
    for (std::size_t i = 0; i < sent.pairs.size(); ++i) {
        EXPECT_EQ(answer.pairs[i].pair, sent.pairs[i].pair);
        EXPECT_EQ(answer.pairs[i].generation, sent.pairs[i].generation);
    }
}

TEST(Introduction, AGenerationOfZeroIsRefused) {
    Introduction hello = sample();
    hello.pairs[1].generation = 0;
    expect_refused(encode(hello));
}

TEST(Introduction, APairOfARailThatTheSenderLacksIsRefused) {
    Introduction hello = sample();
    hello.pairs.push_back({{3, 0}});
    expect_refused(encode(hello));
    hello.pairs.back().pair = {UINT16_MAX, 0};
    expect_refused(encode(hello));
}

TEST(Introduction, NoPairsOrTooManyAreRefused) {
    Introduction hello = sample();
    hello.pairs.clear();
    expect_refused(encode(hello));
    EXPECT_THROW(static_cast<void>(decode_acknowledgement(encode_acknowledgement(1, {}))), Error);
    hello.pairs.assign(4096, IntroducedPair{});
    EXPECT_EQ(decode_introduction(encode(hello)).pairs.size(), 4096u);
    hello.pairs.push_back({});
    expect_refused(encode(hello));
}

TEST(Introduction, WhatIsCutOffOrFollowedByMoreIsRefused) {
    const std::string hello = encode(sample());
    for (std::size_t length = 0; length < hello.size(); ++length)
        expect_refused(std::string_view(hello).substr(0, length));
    expect_refused(hello + '\0');
    const std::string answer = encode_acknowledgement(7, sample().pairs);
    for (std::size_t length = 0; length < answer.size(); ++length) {
        EXPECT_THROW(static_cast<void>(decode_acknowledgement(std::string_view(answer).substr(0, length))),
                     Error);
    }
    EXPECT_THROW(static_cast<void>(decode_acknowledgement(answer + '\0')), Error);
}

/// Flips, cuts and noise: an Error or something that is consistent with itself, and nothing else.
TEST(Introduction, NoBytesCrashIt) {
    std::mt19937 random(5);
    const std::string hello = encode(sample());
    const std::string answer = encode_acknowledgement(7, sample().pairs);
    int understood = 0;
    for (int round = 0; round < 20'000; ++round) {
        std::string bytes = round % 2 ? hello : answer;
        if (round % 5 == 0) bytes.resize(random() % 300, static_cast<char>(random()));
        for (unsigned flips = random() % 4 + 1; flips > 0 && !bytes.empty(); --flips)
            bytes[random() % bytes.size()] = static_cast<char>(random());
        try {
            const Introduction got = decode_introduction(bytes);
            ++understood;
            ASSERT_FALSE(got.pairs.empty());
            for (const IntroducedPair& introduced : got.pairs)
                ASSERT_LT(introduced.pair.local, got.sender.rails.size());
        } catch (const Error&) {
        }
        try {
            ASSERT_LE(decode_acknowledgement(bytes).pairs.size(), 4096u);
        } catch (const Error&) {
        }
    }
    EXPECT_GT(understood, 0) << "the flips never left an introduction alone: they prove little";
}

}  // namespace introduction_test
}  // namespace railyard
