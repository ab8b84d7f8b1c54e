// Notifications that leave together with their data: how soon they are there, and that they are never there
// before it.
#include <algorithm>

#include "early_fixture.h"
#include "least_of.h"

namespace railyard::test {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

struct NotEarly : EarlyNotifications {
    NotEarly() : EarlyNotifications({{"early_notifications", "off"}}) {}
};

struct ImpatientWriters : EarlyNotifications {
    ImpatientWriters() : EarlyNotifications({{"connect_timeout_ms", "1000"}, {"peer_timeout_ms", "1500"}}) {}
};

TEST_P(EarlyNotifications, TakeOneWayInsteadOfThree) {
    meet();
    for (const std::size_t pages : {1, 2, 64}) {
        EXPECT_LT(least_of(1.7, [&] { return latencies_of_one(pages); }), 1.7) << pages;
    }
}

TEST_P(NotEarly, TheyFollowTheirData) {
    meet();
    const Growth notices("notices");
    EXPECT_GT(latencies_of_one(), 1.9);
    EXPECT_EQ(notices.value(), 0u);
}

TEST_P(EarlyNotifications, APostWithoutOneBringsNone) {
    meet();
    Transfer* transfer = prepare_pages(2, "there");
    const auto run_without = [&] {
        const Status status = a_->post_without_notification(*transfer);
        return status == Status::in_progress ? wait(*transfer) : status;
    };
    fill_pattern(source_->bytes, ++contents_);
    ASSERT_EQ(run_without(), Status::ok);
    EXPECT_TRUE(has_all(2));
    const std::string text = "named";
    ASSERT_EQ(a_->post(*transfer, &text), Status::in_progress);
    ASSERT_EQ(wait(*transfer), Status::ok);
    ASSERT_EQ(run_without(), Status::ok);
    const auto got = arrived(1, milliseconds(100));
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].message, text);
    a_->release(transfer);
}

TEST_P(EarlyNotifications, AreThereAfterTheirDataHoweverBothTravel) {
    meet();
    const Growth notices("notices");
    cluster().set("latency_us=20");
    cluster().set("jitter_us=3000");
    write_and_compare(200);
    EXPECT_EQ(notices.value(), 200u) << "the target tells how far it has come";
    write_and_compare(50, 64);
    EXPECT_GE(notices.value(), 200u + 10 * 64) << "the word of that may be late, too";
}

/// A block in pieces over all rails, as one notice.
TEST_P(EarlyNotifications, OfAStripedBlockTheyWaitForAllOfIt) {
    meet();
    const Growth notices("notices"), writes("writes");
    cluster().set("jitter_us=3000");
    Transfer* transfer = prepare(size, 0, "there");
    for (int i = 0; i < 20 && !HasFailure(); ++i) {
        fill_pattern(source_->bytes, ++contents_);
        ASSERT_NE(a_->post(*transfer), Status::backend);
        EXPECT_EQ(arrived(1).size(), 1u);
        EXPECT_TRUE(source_->bytes == target_->bytes) << "round " << i << ": announced before it was there";
        ASSERT_EQ(wait(*transfer), Status::ok);
    }
    EXPECT_GE(writes.value(), 20u * 4);
    EXPECT_EQ(notices.value(), writes.value());
    a_->release(transfer);
}

/// 64 outstanding: each is announced once.
TEST_P(EarlyNotifications, ManyAtOnceComeOnceEach) {
    meet();
    const Growth notices("notices");
    constexpr std::size_t count = 64;
    cluster().set("jitter_us=500");
    std::vector<Transfer*> transfers;
    for (std::size_t i = 0; i < count; ++i)
        transfers.push_back(prepare(page, i * page, "number " + std::to_string(i)));
    std::vector<std::string> expected, texts;
    for (int round = 0; round < 5; ++round) {
        for (Transfer* transfer : transfers)
            ASSERT_NE(a_->post(*transfer), Status::backend);
        for (Transfer* transfer : transfers)
            ASSERT_EQ(wait(*transfer), Status::ok);
        for (const Notification& one : arrived(count, milliseconds(20)))
            texts.push_back(one.message);
        for (std::size_t i = 0; i < count; ++i)
            expected.push_back("number " + std::to_string(i));
    }
    std::sort(texts.begin(), texts.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(texts, expected);
    EXPECT_GE(notices.value(), 5u * 8);
    for (Transfer* transfer : transfers)
        a_->release(transfer);
}

/// Its acknowledgement is lost, and what it has written was announced by then.
TEST_P(EarlyNotifications, WhatWasAnnouncedIsNotWrittenAgain) {
    meet();
    cluster().set("latency_us=20000");
    // Not the one that the notifications leave from.
    for (const char* nic : {"rdmap80s0", "rdmap81s0", "rdmap82s0"})
        cluster().set("lost_answer_next=1", {"*", nic});
    const Growth errors("errors"), notices("notices");
    const std::vector<std::uint8_t> reused(page, 0x5a);
    for (std::uint64_t i = 1; i <= 20 && errors.value() == 0; ++i) {
        Transfer* transfer = prepare(page, 0, "there");
        ASSERT_NO_FATAL_FAILURE(run_and_reuse(*transfer, reused));
        EXPECT_EQ(notices.value(), i);
        a_->release(transfer);
    }
    EXPECT_GE(errors.value(), 1u);
    EXPECT_TRUE(arrived(0, milliseconds(20)).empty());
}

/// The same of several operations, one of which has lost its acknowledgement: the others end as ever.
TEST_P(EarlyNotifications, WhatWasAnnouncedIsNotWrittenAgainInParts) {
    meet();
    constexpr std::size_t block = 1 << 20;
    cluster().set("latency_us=20000");
    for (const char* nic : {"rdmap80s0", "rdmap82s0"})
        cluster().set("lost_answer_next=1", {"*", nic});
    const Growth errors("errors"), notices("notices");
    const std::vector<std::uint8_t> reused(block, 0x5a);
    Transfer* transfer = prepare(block, 0, "there");
    for (std::uint64_t i = 1; i <= 20 && errors.value() < 2; ++i) {
        ASSERT_NO_FATAL_FAILURE(run_and_reuse(*transfer, reused));
        EXPECT_GE(notices.value(), 4 * i);
    }
    EXPECT_EQ(errors.value(), 2u);
    EXPECT_TRUE(arrived(0, milliseconds(20)).empty());
    a_->release(transfer);
}

/// Operations that come to nothing on two rails at once are carried out again, and announced once, when the
/// last of them is there.
TEST_P(EarlyNotifications, OfSeveralThatAreCarriedOutAgainTheyWaitForTheLast) {
    meet();
    cluster().set("jitter_us=2000");
    int failed = 0;
    for (int i = 0; i < 10 && !HasFailure(); ++i) {
        const Growth errors("errors");
        for (const char* nic : {"rdmap80s0", "rdmap81s0", "rdmap82s0"}) {
            cluster().set("error_code=13", {"*", nic});
            cluster().set("error_next=3", {"*", nic});
        }
        const Growth notices("notices");
        write_and_compare(1, 64);
        failed += errors.value() >= 2 && notices.value() >= 64 ? 1 : 0;
        EXPECT_TRUE(arrived(0, milliseconds(5)).empty());
        cluster().set("error_next=0");
        drive_until_well();
        write_and_compare(3);  // and there is another number
    }
    EXPECT_GE(failed, 3);
}

/// It is asked before anything is carried out again, and nobody is there to answer.
TEST_P(EarlyNotifications, ATargetThatIsGoneDoesNotAnswer) {
    meet();
    Transfer* early[] = {prepare(page, 0, "there"), prepare_pages(20, "there")};
    cluster().set("timeout_ms=100");
    cluster().set("link=down");
    for (Transfer* transfer : early)
        ASSERT_EQ(a_->post(*transfer), Status::in_progress);
    const auto begin = Clock::now();
    for (Transfer* transfer : early)
        EXPECT_EQ(wait(*transfer), Status::remote_disconnect);
    EXPECT_LT(Clock::now() - begin, milliseconds(4000));
    for (Transfer* transfer : early)
        a_->release(transfer);
}

/// Its NICs are well, and its application does nothing: nobody can say whether the data has been announced.
TEST_P(ImpatientWriters, ATargetThatGivesNoAnswerIsNotWrittenToAgain) {
    meet();
    for (const char* nic : {"rdmap80s0", "rdmap81s0", "rdmap82s0"})
        cluster().set("lost_answer_next=1", {"*", nic});
    const Growth errors("errors");
    const std::vector<std::uint8_t> reused(page, 0x5a);
    for (int i = 0; i < 20 && errors.value() == 0; ++i) {
        Transfer* early = prepare(page, 0, "there");
        const auto begin = Clock::now();
        ASSERT_EQ(a_->post(*early), Status::in_progress);
        while (errors.value() == 0 && a_->poll(*early) == Status::in_progress)
            std::this_thread::yield();
        std::copy(reused.begin(), reused.end(), target_->bytes.begin());
        const Status status = wait_alone(*a_, *early, Status::in_progress);
        EXPECT_EQ(status, errors.value() == 0 ? Status::ok : Status::remote_disconnect);
        EXPECT_LT(Clock::now() - begin, milliseconds(4000));
        EXPECT_EQ(arrived(1).size(), 1u) << "its data is there";
        EXPECT_TRUE(std::equal(reused.begin(), reused.end(), target_->bytes.begin()));
        a_->release(early);
    }
    EXPECT_GE(errors.value(), 1u);
}

/// It refuses the data, then the question, until our introduction has come.
TEST_P(EarlyNotifications, ATargetThatHasForgottenUsIsAskedAgain) {
    const std::string info = a_->connection_info();
    meet();
    Transfer* early = prepare(page, 0, "there");
    cluster().set("jitter_us=3000");
    for (int i = 0; i < 20 && !HasFailure(); ++i) {
        b_->load_connection_info("alpha", info);
        b_->disconnect("alpha");
        EXPECT_EQ(run(*early), Status::ok);
        EXPECT_EQ(arrived(1).size(), 1u);
    }
    a_->release(early);
}

TEST_P(EarlyNotifications, GoOnWithAnotherNumberAfterAFailure) {
    meet();
    // Not the one that the notifications leave from.
    const simefa::NicPattern nic{"*", "rdmap81s0"};
    const Growth errors("errors", nic);
    cluster().set("error_code=13", nic);
    cluster().set("error_next=1", nic);
    for (int i = 0; i < 100 && errors.value() == 0; ++i)
        write_and_compare(1);
    ASSERT_EQ(errors.value(), 1u);
    drive_until_well();
    const Growth notices("notices"), writes("writes");
    write_and_compare(20);
    EXPECT_GE(writes.value(), 20u);
    EXPECT_GE(notices.value(), 15u) << "those before the answer follow their data";
    EXPECT_TRUE(arrived(0, milliseconds(50)).empty());
}

TEST_P(EarlyNotifications, OfMoreOperationsThanThatFollowTheirData) {
    meet();
    const Growth notices("notices");
    write_and_compare(3, 65);
    EXPECT_EQ(notices.value(), 0u);
    write_and_compare(1, 64);
    EXPECT_EQ(notices.value(), 64u);
}

/// The room that a target keeps for marks is used up, and it has not looked yet.
TEST_P(EarlyNotifications, WithoutRoomForAllOfTheirMarksFollowTheirData) {
    meet();
    const Growth notices("notices");
    std::vector<Transfer*> transfers;
    for (std::size_t i = 0; i < 4; ++i) {
        transfers.push_back(prepare_pages(50, "number " + std::to_string(i)));
        ASSERT_EQ(a_->post(*transfers.back()), Status::in_progress);
    }
    for (Transfer* transfer : transfers)
        EXPECT_EQ(wait(*transfer), Status::ok);
    EXPECT_EQ(notices.value(), 100u);
    EXPECT_EQ(arrived(4, milliseconds(20)).size(), 4u);
    for (std::uint64_t i = 1; i <= 3; ++i) {
        drive(milliseconds(50));
        write_and_compare(1, 60);
        EXPECT_EQ(notices.value(), 100 + i * 60) << "the target has told how far it is";
    }
    for (Transfer* transfer : transfers)
        a_->release(transfer);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, EarlyNotifications, testing::Values("efa-direct", "efa"), efa_name);
INSTANTIATE_TEST_SUITE_P(Fabrics, ImpatientWriters, testing::Values("efa-direct", "efa"), efa_name);
INSTANTIATE_TEST_SUITE_P(Fabrics, NotEarly, testing::Values("efa-direct", "efa"), efa_name);

}  // namespace
}  // namespace railyard::test
