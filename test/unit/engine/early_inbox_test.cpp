// An inbox's early notifications, as they come over the wire.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/early_window.h"
#include "engine/notification.h"
#include "log_lines.h"

namespace railyard {
namespace {

using Bytes = std::vector<std::byte>;
using Texts = std::vector<std::string>;

/// What comes into an inbox from one writer, as the wire has it.
class EarlyNotificationTest : public testing::Test {
  protected:
    EarlyNotificationTest() : number_(inbox_.number(nonce).number) { log::set_level(log::Level::off); }
    ~EarlyNotificationTest() override { log::set_level(log::Level::warn); }

    [[nodiscard]] std::uint32_t mark(std::uint32_t sequence) const {
        return EarlyMark::of(number_, sequence);
    }
    std::vector<Bytes> cut(const std::string& text, std::uint32_t with, std::uint64_t id,
                           std::uint64_t from = nonce, std::uint8_t operations = 1) {
        OutNotification message;
        message.kind = operations == 1 ? MessageKind::notify_early : MessageKind::notify_early_several;
        message.marks = {with, operations};
        message.message = text;
        message.start(agent_, from, id, 0);
        std::vector<Bytes> out;
        for (bool more = true; more; more = message.advance(message)) {
            Bytes buffer(200);
            buffer.resize(message.fill(message, buffer));
            out.push_back(std::move(buffer));
        }
        return out;
    }
    void bring(const std::vector<Bytes>& fragments) {
        for (const Bytes& fragment : fragments)
            inbox_.on_control(fragment);
    }
    Texts taken() {
        std::vector<Notification> got;
        inbox_.take(got);
        Texts texts;
        for (const Notification& one : got) {
            EXPECT_EQ(one.agent, agent_);
            texts.push_back(one.message);
        }
        return texts;
    }

    static constexpr std::uint64_t nonce = 9;
    const std::string agent_ = "writer";
    NotificationInbox inbox_;
    const std::uint32_t number_;
};

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
    const std::uint64_t gone[] = {nonce};
    inbox_.retire(gone);
    for (std::uint32_t i = 3; i <= EarlyMark::most_writers; ++i)
        ASSERT_EQ(inbox_.number(1000 + i).number, i);
    ASSERT_EQ(inbox_.number(11).number, number_);
    inbox_.on_immediate(mark(10'000));
    bring(cut("the next one's", mark(10'000), 1, 11));
    EXPECT_EQ(taken(), Texts{"the next one's"}) << "its mark is not the one that was replaced";
}

TEST_F(EarlyNotificationTest, WhatWaitsIsKeptWithinTheLimits) {
    NotificationInbox tight({2'000, 1'000'000, 1'000});
    const std::uint32_t number = tight.number(nonce).number;
    for (std::uint32_t i = 0; i < 20; ++i) {
        for (const Bytes& fragment : cut(std::string(100, 'x'), EarlyMark::of(number, i), i + 1))
            tight.on_control(fragment);
        EXPECT_LE(tight.held().unfinished, 2'000u);
    }
    const std::uint64_t gone[] = {nonce};
    tight.retire(gone);
    EXPECT_EQ(tight.held().unfinished, 0u);
}

/// What it may be ahead is far less: it leaves nothing behind, and says no more by its marks.
TEST_F(EarlyNotificationTest, AWriterThatPaysNoHeedToItsWindowIsCutOff) {
    const test::LogLines log(log::Level::warn);
    const std::uint32_t others = inbox_.number(10).number;
    inbox_.on_immediate(EarlyMark::of(others, 0));
    bring(cut("waits", mark(5'000), 1));
    bring(cut("waits for two", mark(6'000), 2, nonce, 2));
    const auto send_marks = [&](std::uint32_t first, std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i)
            inbox_.on_immediate(mark(first + i));
    };
    send_marks(0, EarlyNotices::most_unmatched);
    send_marks(0, 1);
    EXPECT_FALSE(log.contain("instance")) << "one that is there already";
    send_marks(6'000, 1);
    EXPECT_FALSE(log.contain("instance")) << "one that is waited for";
    bring(cut("in place", mark(1'000), 3));
    EXPECT_EQ(taken(), Texts{"in place"});
    send_marks(1'000, 1);
    EXPECT_FALSE(log.contain("instance")) << "there is room for it";
    EXPECT_GT(inbox_.held().unfinished, 0u);

    send_marks(9'000, 3);
    EXPECT_EQ(log.count("instance 0000000000000009 has 1025 marks without their notifications"), 1);
    EXPECT_EQ(inbox_.held().unfinished, 0u) << "what has waited goes";
    send_marks(5'000, 1);
    bring(cut("the mark of which has come", mark(2), 4));
    send_marks(7'000, 1);
    bring(cut("one more", mark(7'000), 5));
    EXPECT_TRUE(taken().empty());
    EXPECT_EQ(inbox_.held().unfinished, 0u);
    EXPECT_THROW(static_cast<void>(inbox_.is_in_place(nonce, mark(2), mark(3), 4)), Error);

    // It may send notifications after their data, as who has no number.
    EXPECT_EQ(inbox_.number(nonce).number, 0u);
    EXPECT_EQ(inbox_.number(nonce, number_).number, 0u) << "not another one either";
    OutNotification later;
    later.message = "after its data";
    later.start(agent_, nonce, 6, 0);
    Bytes fragment(200);
    fragment.resize(later.fill(later, fragment));
    bring({fragment});
    EXPECT_EQ(taken(), Texts{"after its data"});
    // Others are not touched, and get its number when it has gone.
    bring(cut("another's", EarlyMark::of(others, 0), 1, 10));
    EXPECT_EQ(taken(), Texts{"another's"});
    for (std::uint32_t i = 3; i <= EarlyMark::most_writers; ++i)
        ASSERT_EQ(inbox_.number(1'000 + i).number, i);
    EXPECT_EQ(inbox_.number(11).number, 0u);
    const std::uint64_t gone[] = {nonce};
    inbox_.retire(gone);
    EXPECT_EQ(inbox_.number(11).number, number_);
    bring(cut("the next one's", mark(2), 1, 11));
    EXPECT_TRUE(taken().empty()) << "a mark of the one that was cut off";
    inbox_.on_immediate(mark(2));
    EXPECT_EQ(taken(), Texts{"the next one's"});
}

/// Its marks come all the same, and are none of those that have the same numbers four million marks later.
TEST_F(EarlyNotificationTest, TheMarksOfOneThatIsRefusedAreNoOthers) {
    NotificationInbox full({4'000, 1'000, 1'000});
    const std::uint32_t number = full.number(nonce).number;
    std::uint64_t id = 0;
    const auto bring_to = [&](const std::string& text, std::uint32_t sequence, std::uint8_t operations) {
        for (const Bytes& fragment : cut(text, EarlyMark::of(number, sequence), ++id, nonce, operations))
            full.on_control(fragment);
    };
    const auto all_of = [&] {
        std::vector<Notification> got;
        full.take(got);
        Texts texts;
        for (const Notification& one : got)
            texts.push_back(one.message);
        return texts;
    };
    std::uint32_t refused = 0;
    for (const std::size_t length : {10, 3'000}) {
        for (const std::uint32_t before : {0u, 1u, 3u}) {  // marks that have come by then
            const std::uint32_t first = 10 * ++refused;
            const std::string other(500, 'o');
            full.put(agent_, other);
            if (length > 1'000) bring_to(std::string(2'500, 'p'), first + 5, 2);
            const std::size_t held = full.held().unfinished;
            for (std::uint32_t i = 0; i < before; ++i)
                full.on_immediate(EarlyMark::of(number, first + i));
            bring_to(std::string(length, 'r'), first, 3);
            const std::uint64_t message = id;
            for (std::uint32_t i = before; i < 3; ++i) {
                EXPECT_EQ(full.held().unfinished, held) << "it is not kept";
                full.on_immediate(EarlyMark::of(number, first + i));
            }
            EXPECT_TRUE(
                full.is_in_place(nonce, EarlyMark::of(number, first), EarlyMark::of(number, 9'000), message));
            full.on_immediate(EarlyMark::of(number, first + 5));
            full.on_immediate(EarlyMark::of(number, first + 6));
            const Texts got = all_of();
            EXPECT_EQ(std::count(got.begin(), got.end(), other), 1);
            EXPECT_EQ(std::count(got.begin(), got.end(), std::string(length, 'r')), 0);
            bring_to("new", first, 3);
            EXPECT_TRUE(all_of().empty()) << "announced by marks of before: " << length << ", " << before;
            for (std::uint32_t i = 0; i < 3; ++i)
                full.on_immediate(EarlyMark::of(number, first + i));
            EXPECT_EQ(all_of(), Texts{"new"});
        }
    }
    EXPECT_EQ(full.held().unfinished, 0u);
}

/// Its writer would have so much less of its window for good.
TEST_F(EarlyNotificationTest, WhatIsRefusedHasBeenLookedAt) {
    NotificationInbox full({4'000, 100, 1'000});
    const std::uint32_t number = full.number(nonce).number, half = EarlyMark::favoured_window / 2;
    for (std::uint32_t i = 1; i <= half; ++i) {
        EXPECT_FALSE(full.owes_credit()) << i;
        for (const Bytes& fragment : cut("refused", EarlyMark::of(number, i), i))
            full.on_control(fragment);
        full.on_immediate(EarlyMark::of(number, i));
    }
    EXPECT_TRUE(full.owes_credit());
    const EarlyNotices::Credits credits = full.take_credits();
    ASSERT_EQ(credits.size(), 1u);
    EXPECT_EQ(credits.front().agent, agent_);
    EXPECT_EQ(credits.front().count, half);
    EXPECT_TRUE(full.empty());
    EXPECT_EQ(full.notifications_from(nonce), 0u);
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
}  // namespace railyard
