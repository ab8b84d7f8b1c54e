// What an inbox keeps of early notifications, and whom it refuses or cuts off.
#include <algorithm>

#include "early_inbox.h"
#include "log_lines.h"

namespace railyard::early_inbox {
namespace {

TEST_F(EarlyNotificationTest, WhatWaitsIsKeptWithinTheLimits) {
    NotificationInbox tight({2'000, 1'000'000, 1'000});
    const std::uint32_t number = tight.number(nonce).number;
    for (std::uint32_t i = 0; i < 20; ++i) {
        for (const Bytes& fragment : cut(std::string(100, 'x'), EarlyMark::of(number, i), i + 1))
            tight.on_control(fragment);
        EXPECT_LE(tight.held().unfinished, 2'000u);
    }
    const std::uint64_t gone[] = {nonce};
    tight.close_lost(gone);
    EXPECT_NE(tight.rested_number(11, now_ns() + 2 * EarlyNotices::longest_rest_ns).number, 0u);
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
    inbox_.close_lost(gone);
    EXPECT_EQ(inbox_.rested_number(11, now_ns() + 2 * EarlyNotices::longest_rest_ns).number, number_);
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

}  // namespace
}  // namespace railyard::early_inbox
