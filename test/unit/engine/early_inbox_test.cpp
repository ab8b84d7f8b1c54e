// An inbox's early notifications, as they come over the wire.
#include "early_inbox.h"

namespace railyard::early_inbox {
namespace {

TEST_F(EarlyNotificationTest, WaitsForTheWordThatItsDataIsInPlace) {
    bring(cut("first", mark(1), 1));
    bring(cut("second", mark(2), 2));
    EXPECT_TRUE(inbox_.empty());
    EXPECT_GT(inbox_.held().unfinished, 0u);
    EXPECT_EQ(inbox_.notifications_from(nonce), 0u);
    inbox_.on_immediate(mark(2));
    EXPECT_EQ(taken(), Texts{"second"});
    inbox_.on_immediate(mark(1));
    EXPECT_EQ(taken(), Texts{"first"});
    EXPECT_EQ(inbox_.held().unfinished, 0u);
    EXPECT_EQ(inbox_.notifications_from(nonce), 2u);
}

TEST_F(EarlyNotificationTest, TheWordMayComeFirstAndServesOnce) {
    inbox_.on_immediate(mark(1));
    EXPECT_TRUE(inbox_.empty());
    bring(cut("first", mark(1), 1));
    EXPECT_EQ(taken(), Texts{"first"});
    bring(cut("again", mark(1), 2));
    EXPECT_TRUE(taken().empty()) << "its word has been used";
}

TEST_F(EarlyNotificationTest, AMessageThatComesTwiceIsOne) {
    const std::vector<Bytes> message = cut("once", mark(1), 1);
    bring(message);
    bring(message);
    inbox_.on_immediate(mark(1));
    bring(message);
    inbox_.on_immediate(mark(1));
    bring(message);
    EXPECT_EQ(taken(), Texts{"once"});
}

TEST_F(EarlyNotificationTest, ALongOneWaitsForItsFragmentsAndForTheWord) {
    const std::string text(5000, 'l');
    for (const bool word_first : {true, false}) {
        std::vector<Bytes> fragments = cut(text, mark(word_first ? 1 : 2), word_first ? 1 : 2);
        ASSERT_GT(fragments.size(), 20u);
        std::reverse(fragments.begin(), fragments.end());
        if (word_first) inbox_.on_immediate(mark(1));
        const Bytes last = fragments.back();
        fragments.pop_back();
        bring(fragments);
        EXPECT_TRUE(inbox_.empty());
        bring({last});
        if (!word_first) {
            EXPECT_TRUE(inbox_.empty());
            inbox_.on_immediate(mark(2));
        }
        EXPECT_EQ(taken(), Texts{text});
    }
    EXPECT_EQ(inbox_.held().unfinished, 0u);
}

TEST_F(EarlyNotificationTest, NobodyUsesAnothersWord) {
    const std::uint32_t others = inbox_.number(10).number;
    ASSERT_NE(others, number_);
    inbox_.on_immediate(mark(1));
    bring(cut("forged", mark(1), 1, 10));
    bring(cut("of nobody", EarlyMark::of(500, 1), 2));
    bring({cut(std::string(500, 'x'), EarlyMark::of(500, 1), 4, 0).front()});
    EXPECT_TRUE(inbox_.empty());
    EXPECT_EQ(inbox_.held().unfinished, 0u);
    bring(cut("right", mark(1), 3));
    EXPECT_EQ(taken(), Texts{"right"});
}

TEST_F(EarlyNotificationTest, FragmentsAgreeOnTheWord) {
    const std::vector<Bytes> one = cut(std::string(300, 'x'), mark(1), 1),
                             other = cut(std::string(300, 'x'), mark(2), 1);
    ASSERT_GE(one.size(), 2u);
    bring({one.begin(), one.end() - 1});
    bring({other.back()});
    inbox_.on_immediate(mark(2));
    EXPECT_TRUE(inbox_.empty());
    bring({one.back()});
    inbox_.on_immediate(mark(1));
    EXPECT_EQ(taken().size(), 1u);
}

TEST_F(EarlyNotificationTest, WhatHasBeenAnnouncedIsInPlaceAndStays) {
    bring(cut("first", mark(1), 1));
    inbox_.on_immediate(mark(1));
    EXPECT_EQ(taken(), Texts{"first"});
    EXPECT_TRUE(inbox_.is_in_place(nonce, mark(1), mark(9), 1));
    inbox_.on_immediate(mark(2));
    bring(cut("other", mark(3), 3));
    EXPECT_TRUE(inbox_.is_in_place(nonce, mark(2), mark(9), 2)) << "its word has come, and no more";
    bring(cut("second", mark(2), 2));
    EXPECT_EQ(taken(), Texts{"second"});
}

TEST_F(EarlyNotificationTest, WhatIsWrittenOnceMoreIsAnnouncedByTheLastWordAlone) {
    bring(cut("before", mark(7), 7));
    for (const bool message_first : {true, false}) {
        const std::uint32_t base = message_first ? 100 : 200;
        const std::uint64_t id = base;
        if (message_first) bring(cut("repeated", mark(base), id));
        for (int asked = 0; asked < 2; ++asked)
            EXPECT_FALSE(inbox_.is_in_place(nonce, mark(base), mark(base + 1), id));
        inbox_.on_immediate(mark(base));
        EXPECT_FALSE(inbox_.is_in_place(nonce, mark(base + 1), mark(base + 2), id));
        inbox_.on_immediate(mark(base + 1));
        inbox_.on_immediate(mark(base));
        if (!message_first) bring(cut("repeated", mark(base), id));
        EXPECT_TRUE(inbox_.empty()) << "announced by a word of before";
        inbox_.on_immediate(mark(base + 2));
        EXPECT_EQ(taken(), Texts{"repeated"});
        EXPECT_TRUE(inbox_.is_in_place(nonce, mark(base + 2), mark(base + 3), id));
    }
    inbox_.on_immediate(mark(300));
    EXPECT_FALSE(inbox_.is_in_place(nonce, mark(301), mark(302), 301));
    inbox_.on_immediate(mark(302));
    bring(cut("the word came first", mark(301), 301));
    EXPECT_EQ(taken(), Texts{"the word came first"});
}

TEST_F(EarlyNotificationTest, OfSeveralOperationsItWaitsForTheWordOfEach) {
    bring(cut("three", mark(1), 1, nonce, 3));
    inbox_.on_immediate(mark(3));
    inbox_.on_immediate(mark(1));
    inbox_.on_immediate(mark(1));
    EXPECT_TRUE(inbox_.empty());
    EXPECT_GT(inbox_.held().unfinished, 0u);
    inbox_.on_immediate(mark(2));
    EXPECT_EQ(taken(), Texts{"three"});
    EXPECT_EQ(inbox_.held().unfinished, 0u);
    const std::vector<Bytes> two = cut(std::string(300, 'x'), mark(11), 2, nonce, 2),
                             three = cut(std::string(300, 'x'), mark(11), 2, nonce, 3);
    bring({two.front()});
    bring({three.back()});
    inbox_.on_immediate(mark(11));
    inbox_.on_immediate(mark(12));
    EXPECT_TRUE(inbox_.empty()) << "fragments agree on how many there are";
    bring({two.back()});
    EXPECT_EQ(taken().size(), 1u);
}

/// Operation by operation, as each may be carried out again by itself.
TEST_F(EarlyNotificationTest, OfSeveralOperationsEachIsAskedAboutByItself) {
    for (const bool message_first : {true, false}) {
        const std::uint32_t base = message_first ? 100 : 200;
        const std::uint64_t id = base;
        if (message_first)
            bring(cut("three", mark(base), id, nonce, 3));
        else
            bring(cut("another", mark(50), 50));
        inbox_.on_immediate(mark(base + 1));
        EXPECT_TRUE(inbox_.is_in_place(nonce, mark(base + 1), mark(base + 10), id));
        EXPECT_FALSE(inbox_.is_in_place(nonce, mark(base), mark(base + 11), id));
        EXPECT_FALSE(inbox_.is_in_place(nonce, mark(base + 2), mark(base + 12), id));
        EXPECT_FALSE(inbox_.is_in_place(nonce, mark(base + 12), mark(base + 13), id));
        inbox_.on_immediate(mark(base));
        inbox_.on_immediate(mark(base + 2));
        inbox_.on_immediate(mark(base + 12));
        inbox_.on_immediate(mark(base + 13));
        EXPECT_TRUE(inbox_.is_in_place(nonce, mark(base + 13), mark(base + 14), id));
        if (!message_first) bring(cut("three", mark(base), id, nonce, 3));
        EXPECT_TRUE(inbox_.empty()) << "announced by a word of before";
        inbox_.on_immediate(mark(base + 11));
        EXPECT_EQ(taken(), Texts{"three"});
        EXPECT_TRUE(inbox_.is_in_place(nonce, mark(base + 11), mark(base + 15), id));
    }
}

TEST_F(EarlyNotificationTest, QuestionsWithoutSenseAreRefused) {
    const auto refused = [&](std::uint64_t instance, std::uint32_t about, std::uint32_t next,
                             std::uint64_t id) {
        try {
            static_cast<void>(inbox_.is_in_place(instance, about, next, id));
        } catch (const Error&) {
            return true;
        }
        return false;
    };
    EXPECT_TRUE(refused(nonce, mark(1), mark(2), 1)) << "nothing is known of it yet";
    bring(cut("first", mark(1), 1));
    const std::uint32_t others = inbox_.number(10).number;
    EXPECT_TRUE(refused(10, mark(1), mark(2), 1)) << "another's";
    EXPECT_TRUE(refused(nonce, mark(1), EarlyMark::of(others, 2), 1));
    EXPECT_TRUE(refused(nonce, EarlyMark::of(500, 1), EarlyMark::of(500, 2), 1)) << "nobody's";
    EXPECT_TRUE(refused(nonce, mark(1), mark(1), 1));
    bring(cut("second", mark(2), 2));
    EXPECT_TRUE(refused(nonce, mark(1), mark(2), 1)) << "it has a message of its own";
    EXPECT_FALSE(refused(nonce, mark(1), mark(3), 1));
    EXPECT_FALSE(refused(nonce, mark(1), mark(3), 1)) << "asked again";
    EXPECT_TRUE(refused(nonce, mark(1), mark(4), 1)) << "it was replaced";
    EXPECT_TRUE(refused(nonce, mark(2), mark(1), 2)) << "it would lead back";
    EXPECT_TRUE(refused(nonce, mark(2), mark(3), 2)) << "it takes the place of another";
    bring(cut("with the mark of another", mark(3), 3));
    inbox_.on_immediate(mark(3));
    EXPECT_EQ(taken(), Texts{"first"});
    for (std::uint32_t i = 0; i + 1 < EarlyNotices::most_unmatched; ++i)
        ASSERT_FALSE(refused(nonce, mark(10'000 + 2 * i), mark(10'001 + 2 * i), 90));
    EXPECT_TRUE(refused(nonce, mark(9'000), mark(9'001), 90)) << "too many";
    for (std::uint32_t i = 3; i <= EarlyMark::most_writers; ++i)
        ASSERT_EQ(inbox_.number(1000 + i).number, i);
    const std::uint64_t gone[] = {nonce};
    inbox_.close_lost(gone);
    ASSERT_EQ(inbox_.rested_number(11, now_ns() + 2 * EarlyNotices::longest_rest_ns).number, number_);
    inbox_.on_immediate(mark(10'000));
    bring(cut("the next one's", mark(10'000), 1, 11));
    EXPECT_EQ(taken(), Texts{"the next one's"}) << "its mark is not the one that was replaced";
}

/// Its marks may lie unread by then, and its writer has been told that all is well.
TEST_F(EarlyNotificationTest, WhatWasSentBeforeANumberIsClosedIsDeliveredHoweverMuchNumbersAreWanted) {
    for (std::uint32_t i = 2; i <= EarlyMark::most_writers; ++i)
        ASSERT_EQ(inbox_.number(1000 + i).number, i);
    bring(cut("the message has come", mark(1), 1));
    EXPECT_EQ(inbox_.number(nonce, number_).number, 0u);
    EXPECT_EQ(inbox_.rested_number(nonce, now_ns()).number, 0u);
    EXPECT_EQ(inbox_.rested_number(nonce, now_ns() + 2 * EarlyNotices::rest_ns).number, 0u);
    inbox_.on_immediate(mark(1));
    inbox_.on_immediate(mark(2));
    EXPECT_EQ(inbox_.rested_number(nonce, now_ns()).number, 0u);
    bring(cut("the word has come", mark(2), 2));
    EXPECT_EQ(taken(), (Texts{"the message has come", "the word has come"}));
    EXPECT_EQ(inbox_.rested_number(11, now_ns() + 2 * EarlyNotices::rest_ns).number, number_);
}

/// A writer that nobody knows any more may go on, and hears that all is well.
TEST_F(EarlyNotificationTest, WhatComesOfALostWriterIsDeliveredHoweverMuchNumbersAreWanted) {
    for (std::uint32_t i = 2; i <= EarlyMark::most_writers; ++i)
        ASSERT_EQ(inbox_.number(1000 + i).number, i);
    EXPECT_EQ(inbox_.instances_in_the_way().size(), EarlyMark::most_writers);
    const std::uint64_t lost[] = {nonce};
    inbox_.close_lost(lost);
    EXPECT_EQ(inbox_.number(11).number, 0u);
    EXPECT_EQ(inbox_.rested_number(11, now_ns() + 2 * EarlyNotices::rest_ns).number, 0u);
    bring(cut("goes on", mark(1), 1));
    inbox_.on_immediate(mark(1));
    EXPECT_EQ(taken(), Texts{"goes on"});
    EXPECT_EQ(inbox_.number(nonce).number, number_);
}

TEST_F(EarlyNotificationTest, WhereOthersHearOfImmediateDataThereIsNoNumber) {
    struct Sink final : fabric::ImmediateSink {
        void on_immediate(std::uint32_t data) noexcept override { heard.push_back(data); }
        std::vector<std::uint32_t> heard;
    } sink;
    inbox_.pass_immediates_to(&sink);
    EXPECT_EQ(inbox_.number(11).number, 0u);
    inbox_.on_immediate(mark(1));
    EXPECT_EQ(sink.heard, std::vector<std::uint32_t>{mark(1)});
}

}  // namespace
}  // namespace railyard::early_inbox
