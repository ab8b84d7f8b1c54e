// Requests that name memory which is not there, or leave it: answered with an error, and nothing is moved.
#include "engine/request.h"
#include "gpu_side.h"
#include "simulated_machine.h"
#include "stranger.h"

namespace railyard::test {
namespace {

const Fabric direct{"efa-direct", 1, false};

class HostileRequestTest : public testing::Test {
  protected:
    static constexpr std::size_t size = 8192;

    HostileRequestTest() {
        secret_.fill(7);
        mallory_.say(MessageKind::hello, "mallory", mallory_.nonce, mallory_.hello());
    }
    ~HostileRequestTest() override { mallory_.rails->deregister_memory(*loot_); }

    [[nodiscard]] Request request(RequestKind kind, RequestPiece piece) const {
        Request made;
        made.id = 1;
        made.kind = kind;
        made.tokens = {token_};
        RequestMemory memory;
        memory.rails = loot_->rails;
        for (const RegisteredMemory& one : loot_->memory)
            memory.keys.push_back({one.key, one.address_base});
        made.memories = {memory};
        made.pieces = {piece};
        return made;
    }
    [[nodiscard]] std::uint64_t ours() const { return reinterpret_cast<std::uint64_t>(bytes_.data()); }

    /// What the victim answers.
    Status ask(Request request) {
        request.id = ++asked_;
        mallory_.say(MessageKind::request, "mallory", mallory_.nonce, encode(request));
        std::optional<Status> answer;
        EXPECT_TRUE(mallory_.until([&] {
            std::vector<Letter> letters;
            mallory_.inbox.take_letters(letters);
            for (const Letter& letter : letters) {
                if (letter.kind == MessageKind::answer && decode_answer(letter.text).id == asked_)
                    answer = decode_answer(letter.text).status;
                if (letter.kind == MessageKind::hello) acknowledge(letter);
            }
            return answer.has_value();
        })) << "a request is not answered";
        return answer.value_or(Status::in_progress);
    }
    /// The victim introduces itself before it writes; a NIC that knows it is all that takes.
    void acknowledge(const Letter& hello) {
        const Introduction introduction = decode_introduction(hello.text);
        for (const IntroducedPair& introduced : introduction.pairs)
            mallory_.rails->rail(introduced.pair.remote).insert_peer(introduced.sender);
        mallory_.say(MessageKind::hello_ack, "mallory", mallory_.nonce,
                     encode_acknowledgement(hello.nonce, introduction.pairs));
    }

    std::unique_ptr<Engine> victim_ = make_engine("victim", direct, {{"vram_staging", "always"}});
    Place secret_{*victim_, 0, size};
    const std::uint64_t token_ = decode_memory(victim_->memory_metadata(*secret_.region)).token;
    Stranger mallory_{*victim_, direct};
    std::vector<std::uint8_t> bytes_ = std::vector<std::uint8_t>(3 * size);
    std::shared_ptr<Registration> loot_ =
        mallory_.rails->register_memory(reinterpret_cast<std::uint64_t>(bytes_.data()), bytes_.size(), 0);
    std::uint64_t asked_ = 0;
};

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
            if (piece.length > UINT64_MAX - piece.ours) continue;  // not even whole: no answer
            EXPECT_EQ(ask(mixed), Status::invalid_param)
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

/// The other tests show nothing if no request of this kind ever works.
TEST_F(HostileRequestTest, AProperOneIsServed) {
    ASSERT_EQ(ask(request(RequestKind::read, {secret_.address, ours(), size, 0, 0})), Status::ok);
    const std::vector<std::uint8_t> content = secret_.content();
    EXPECT_TRUE(std::equal(content.begin(), content.end(), bytes_.begin()));
    EXPECT_EQ(std::count(bytes_.begin() + size, bytes_.end(), 0), static_cast<long>(2 * size));
}

}  // namespace
}  // namespace railyard::test
