// A stranger that asks an engine for its GPU memory, as requests are asked.
#pragma once

#include "engine/request.h"
#include "gpu_side.h"
#include "simulated_machine.h"
#include "stranger.h"

namespace railyard::test {

/// A victim with GPU memory that its NICs do not reach, and mallory, who asks for it.
class RequestTest : public testing::Test {
  protected:
    static constexpr std::size_t size = 8192;

    explicit RequestTest(const Fabric& fabric = {"efa-direct", 1, false}, ParamMap params = {})
        : victim_(make_engine("victim", fabric, staging(std::move(params)))), mallory_(*victim_, fabric) {
        secret_.fill(7);
        mallory_.say(MessageKind::hello, "mallory", mallory_.nonce, mallory_.hello());
    }
    ~RequestTest() override { mallory_.rails->deregister_memory(*loot_); }

    [[nodiscard]] Request request(RequestKind kind, RequestPiece piece) const {
        Request made;
        made.id = 1;
        made.kind = kind;
        made.tokens = {token_};
        made.memories = {loot_->key_table()};
        made.pieces = {piece};
        return made;
    }
    [[nodiscard]] std::uint64_t ours() const { return reinterpret_cast<std::uint64_t>(bytes_.data()); }

    void say(Request request) {
        request.id = ++asked_;
        mallory_.say(MessageKind::request, "mallory", mallory_.nonce, encode(request));
    }
    /// What the victim answers.
    Status ask(Request request) {
        say(std::move(request));
        std::optional<Status> answer;
        EXPECT_TRUE(mallory_.until([&] {
            Letters letters;
            mallory_.inbox.take_letters(letters);
            for (const Letter& letter : letters) {
                if (letter.kind == MessageKind::answer && decode_answer(letter.text).id == asked_)
                    answer = decode_answer(letter.text).status;
                if (letter.kind == MessageKind::hello) mallory_.acknowledge(letter);
            }
            return answer.has_value();
        })) << "a request is not answered";
        return answer.value_or(Status::in_progress);
    }

    static ParamMap staging(ParamMap params) {
        params["vram_staging"] = "always";
        return params;
    }

    std::unique_ptr<Engine> victim_;
    Place secret_{*victim_, 0, size};
    std::uint64_t token_ = decode_memory(victim_->memory_metadata(*secret_.region)).token;
    Stranger mallory_;
    std::vector<std::uint8_t> bytes_ = std::vector<std::uint8_t>(3 * size);
    std::shared_ptr<Registration> loot_ =
        mallory_.rails->register_memory(reinterpret_cast<std::uint64_t>(bytes_.data()), bytes_.size(), 0);
    std::uint64_t asked_ = 0;
};

}  // namespace railyard::test
