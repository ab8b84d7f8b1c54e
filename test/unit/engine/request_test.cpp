// What engines ask of each other, as bytes: it comes back as it was, and nonsense is refused.
#include "engine/request.h"

#include <gtest/gtest.h>

#include <random>

namespace railyard {
namespace request_test {

Request sample() {
    Request request;
    request.id = 0x0102030405060708;
    request.kind = RequestKind::write;
    request.tokens = {7, UINT64_MAX};
    request.memories = {{{0, 3}, {{11, 0}, {12, 0x1000}}}};
    request.pieces = {{0x1000, 0x2000, 100, 1, 0}, {0x5000, 0x6000, 1, 0, 0}};
    return request;
}

void expect_refused(const Request& request) {
    EXPECT_THROW(static_cast<void>(decode_request(encode(request))), Error);
}

TEST(Request, ComesBackAsItWas) {
    const Request sent = sample(), got = decode_request(encode(sent));
    EXPECT_EQ(got.id, sent.id);
    EXPECT_EQ(got.kind, sent.kind);
    EXPECT_EQ(got.tokens, sent.tokens);
    ASSERT_EQ(got.memories.size(), 1u);
    EXPECT_EQ(got.memories[0].rails, sent.memories[0].rails);
    EXPECT_EQ(got.memories[0].keys[1].key, 12u);
    EXPECT_EQ(got.memories[0].keys[1].address_base, 0x1000u);
    ASSERT_EQ(got.pieces.size(), 2u);
    EXPECT_EQ(got.pieces[0].theirs, 0x1000u);
    EXPECT_EQ(got.pieces[0].ours, 0x2000u);
    EXPECT_EQ(got.pieces[0].length, 100u);
    EXPECT_EQ(got.pieces[0].token, 1u);
    Request flush;
    flush.kind = RequestKind::flush;
    flush.tokens = {5};
    EXPECT_EQ(decode_request(encode(flush)).tokens, flush.tokens);
    Request withdrawal;
    withdrawal.kind = RequestKind::withdraw;
    withdrawal.tokens = {1, 2, 3};
    EXPECT_EQ(decode_request(encode(withdrawal)).tokens, withdrawal.tokens);
    const Answer answer = decode_answer(encode(Answer{9, Status::not_allowed}));
    EXPECT_EQ(answer.id, 9u);
    EXPECT_EQ(answer.status, Status::not_allowed);
}

TEST(Request, InconsistentFieldsAreRefused) {
    Request request = sample();
    request.pieces[0].token = 2;  // there are two
    expect_refused(request);
    request = sample();
    request.pieces[0].memory = 1;
    expect_refused(request);
    request = sample();
    request.pieces[0].length = 0;
    expect_refused(request);
    request = sample();
    request.pieces[0].theirs = UINT64_MAX - 10;  // wraps
    expect_refused(request);
    request = sample();
    request.pieces[0].ours = UINT64_MAX - 10;
    expect_refused(request);
    request = sample();
    request.memories[0].rails = {3, 3};
    expect_refused(request);
    request = sample();
    request.memories[0] = {};
    expect_refused(request);
    request = sample();
    request.tokens.clear();
    expect_refused(request);
    request = sample();
    request.pieces.clear();
    expect_refused(request);
    request = sample();
    request.kind = RequestKind::flush;  // has no pieces
    expect_refused(request);
    request.kind = RequestKind::withdraw;
    expect_refused(request);
    request = sample();
    request.kind = static_cast<RequestKind>(5);
    expect_refused(request);
    request = sample();
    request.pieces.resize(max_request_pieces + 1, request.pieces[0]);
    expect_refused(request);
    for (const Status never : {Status::in_progress, Status::not_posted, static_cast<Status>(77)})
        EXPECT_THROW(static_cast<void>(decode_answer(encode(Answer{1, never}))), Error);
}

TEST(Request, BytesOfAnyKindEndInAValueOrInAnError) {
    std::mt19937 random(11);
    const std::string good = encode(sample());
    int refused = 0;
    for (int i = 0; i < 20'000; ++i) {
        std::string bytes = good.substr(0, random() % (good.size() + 1));
        for (unsigned flips = random() % 4; flips != 0 && !bytes.empty(); --flips)
            bytes[random() % bytes.size()] = static_cast<char>(random());
        try {
            const Request got = decode_request(bytes);
            for (const RequestPiece& piece : got.pieces) {
                ASSERT_LT(piece.token, got.tokens.size());
                ASSERT_LT(piece.memory, got.memories.size());
            }
        } catch (const Error& error) {
            ++refused;
            ASSERT_EQ(error.status(), Status::mismatch);
        }
    }
    EXPECT_GT(refused, 10'000);
}

}  // namespace request_test
}  // namespace railyard
