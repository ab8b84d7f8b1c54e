// Requests that name memory which is not there, or leave it: answered with an error, and nothing is moved.
#include "requester.h"

namespace railyard::test {
namespace {

class HostileRequestTest : public RequestTest {};

TEST_F(HostileRequestTest, PiecesThatLeaveTheRegistrationMoveNothing) {
    const std::uint64_t start = secret_.address;
    const std::vector<std::uint8_t> before = secret_.content();
    const RequestPiece leaving[] = {
        {start - 1, ours(), 2, 0, 0},
        {start + size - 1, ours(), 2, 0, 0},
        {start, ours(), size + 1, 0, 0},
        {start + size, ours(), 1, 0, 0},
        {start - 4096, ours(), 3 * size, 0, 0},
        {1, ours(), start, 0, 0},
        {0, ours(), 64, 0, 0},
        {start, ours(), UINT64_MAX - start, 0, 0},
    };
    for (const RequestPiece& piece : leaving) {
        for (const RequestKind kind : {RequestKind::read, RequestKind::write}) {
            // The first piece is good; the whole request is refused.
            Request mixed = request(kind, {start, ours(), 64, 0, 0});
            mixed.pieces.push_back(piece);
            const bool whole = piece.length <= UINT64_MAX - piece.ours;
            EXPECT_EQ(ask(mixed), whole ? Status::invalid_param : Status::mismatch)
                << "piece at start" << std::showpos << static_cast<std::int64_t>(piece.theirs - start);
        }
    }
    EXPECT_EQ(secret_.content(), before);
    EXPECT_EQ(bytes_, std::vector<std::uint8_t>(bytes_.size()));
}

TEST_F(HostileRequestTest, MemoryThatIsNotThereOrGoneIsRefused) {
    Request guessed = request(RequestKind::read, {secret_.address, ours(), 64, 0, 0});
    guessed.tokens[0] ^= 1;
    EXPECT_EQ(ask(guessed), Status::invalid_param);
    Request flush = guessed;
    flush.kind = RequestKind::flush;
    flush.memories.clear();
    flush.pieces.clear();
    EXPECT_EQ(ask(flush), Status::invalid_param);
    Request elsewhere = request(RequestKind::read, {secret_.address, ours(), 64, 0, 0});
    elsewhere.memories[0].rails.back() = 1000;  // a rail that mallory does not have
    EXPECT_EQ(ask(elsewhere), Status::mismatch);
    secret_.drop(*victim_);
    EXPECT_EQ(ask(request(RequestKind::read, {secret_.address, ours(), 64, 0, 0})), Status::invalid_param)
        << "the token of deregistered memory still opens it";
    EXPECT_EQ(bytes_, std::vector<std::uint8_t>(bytes_.size()));
}

/// Its sender waits for an answer, whatever is wrong with it.
TEST_F(HostileRequestTest, OneThatIsNotWholeIsAnswered) {
    Request many = request(RequestKind::flush, {});
    many.memories.clear();
    many.pieces.clear();
    many.tokens.assign(513, token_);
    EXPECT_EQ(ask(many), Status::mismatch);
    EXPECT_EQ(ask(request(RequestKind::write, {secret_.address, ours(), UINT64_MAX, 0, 0})),
              Status::mismatch);
    EXPECT_EQ(bytes_, std::vector<std::uint8_t>(bytes_.size()));
}

TEST_F(HostileRequestTest, OneThatWasWithdrawnBeforeItCameMovesNothing) {
    Request withdrawal;
    withdrawal.kind = RequestKind::withdraw;
    withdrawal.tokens = {asked_ + 2};
    say(withdrawal);  // has an id, too
    EXPECT_EQ(ask(request(RequestKind::read, {secret_.address, ours(), size, 0, 0})), Status::canceled);
    EXPECT_EQ(bytes_, std::vector<std::uint8_t>(bytes_.size()));
    EXPECT_EQ(ask(request(RequestKind::read, {secret_.address, ours(), size, 0, 0})), Status::ok)
        << "the next";
}

/// What the victim has begun for mallory ends, and is answered, however far it is.
TEST_F(HostileRequestTest, OneThatIsWithdrawnAfterwardsIsAnswered) {
    Request withdrawal;
    withdrawal.kind = RequestKind::withdraw;
    say(request(RequestKind::read, {secret_.address, ours(), size, 0, 0}));
    withdrawal.tokens = {asked_};
    mallory_.say(MessageKind::request, "mallory", mallory_.nonce, encode(withdrawal));
    bool answered = false;
    EXPECT_TRUE(mallory_.until([&] {
        Letters letters;
        mallory_.inbox.take_letters(letters);
        for (const Letter& letter : letters) {
            if (letter.kind == MessageKind::answer) answered = decode_answer(letter.text).id == asked_;
            if (letter.kind == MessageKind::hello) mallory_.acknowledge(letter);
        }
        return answered;
    }));
    secret_.drop(*victim_);  // throws while it is in flight
}

/// The other tests show nothing if no request of this kind ever works.
TEST_F(HostileRequestTest, AProperOneIsServed) {
    ASSERT_EQ(ask(request(RequestKind::read, {secret_.address, ours(), size, 0, 0})), Status::ok);
    const std::vector<std::uint8_t> content = secret_.content();
    EXPECT_TRUE(std::equal(content.begin(), content.end(), bytes_.begin()));
    EXPECT_EQ(std::count(bytes_.begin() + size, bytes_.end(), 0), static_cast<long>(2 * size));
}

}  // namespace
}  // namespace railyard::test
