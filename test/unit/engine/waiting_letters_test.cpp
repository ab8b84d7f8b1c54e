// Letters wait for the introduction of who sent them: in order, within bounds, and not for ever.
#include "engine/waiting_letters.h"

#include <gtest/gtest.h>

namespace railyard {
namespace {

constexpr std::uint64_t patience = 1000;

Letters letter(std::uint64_t nonce, const std::string& text) {
    return {{MessageKind::request, "agent", nonce, text}};
}

std::vector<std::string> texts(const Letters& letters) {
    std::vector<std::string> result;
    for (const Letter& one : letters)
        result.push_back(one.text);
    return result;
}

using Texts = std::vector<std::string>;

TEST(WaitingLetters, AreTakenOnceInTheirOrderByInstance) {
    WaitingLetters waiting(patience);
    waiting.keep(letter(1, "first"), 10);
    waiting.keep(letter(2, "of another"), 10);
    waiting.keep(letter(1, "second"), 11);
    EXPECT_EQ(texts(waiting.take(3, 12)), Texts{});
    EXPECT_EQ(texts(waiting.take(1, 12)), (Texts{"first", "second"}));
    EXPECT_EQ(texts(waiting.take(1, 12)), Texts{});
    EXPECT_EQ(texts(waiting.take(2, 12)), Texts{"of another"});
}

TEST(WaitingLetters, TheLateOnesAreRefused) {
    WaitingLetters waiting(patience);
    waiting.keep(letter(1, "late"), 10);
    waiting.keep(letter(1, "in time"), 11);
    EXPECT_EQ(texts(waiting.take(1, 11 + patience)), Texts{"in time"});
    waiting.keep(letter(1, "late"), 10);
    waiting.keep(letter(2, "new"), 11 + patience);
    EXPECT_EQ(waiting.count(), 1u);
}

/// By a thread that has read the clock before, and got the lock later.
TEST(WaitingLetters, OneThatHasJustComeIsNotLate) {
    WaitingLetters waiting(patience);
    waiting.keep(letter(1, "x"), 11);
    waiting.keep(letter(1, "y"), 10);
    EXPECT_EQ(texts(waiting.take(1, 9)), (Texts{"x", "y"}));
}

TEST(WaitingLetters, TheOldestMakeRoom) {
    WaitingLetters waiting(patience);
    for (std::size_t i = 0; i <= WaitingLetters::most; ++i)
        waiting.keep(letter(i, "x"), 10);
    EXPECT_EQ(waiting.count(), WaitingLetters::most);
    EXPECT_EQ(texts(waiting.take(0, 10)), Texts{});
    EXPECT_EQ(texts(waiting.take(1, 10)), Texts{"x"});
    const std::string half(WaitingLetters::most_bytes / 2, 'h');
    for (std::uint64_t nonce : {1000, 1001, 1002})
        waiting.keep(letter(nonce, half), 10);
    EXPECT_EQ(waiting.count(), 2u) << "they take too much";
    EXPECT_EQ(texts(waiting.take(1000, 10)), Texts{});
    EXPECT_EQ(texts(waiting.take(1002, 10)), Texts{half});
    for (std::uint64_t nonce : {2000, 2001})
        waiting.keep(letter(nonce, half), 10);
    EXPECT_EQ(waiting.count(), 2u) << "what was taken counts no more";
}

}  // namespace
}  // namespace railyard
