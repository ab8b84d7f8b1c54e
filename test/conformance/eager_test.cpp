// Small WRITEs and READs over sockets: one message each, with its notification, and ended when the bytes are
// in their places.
#include <algorithm>
#include <cstring>
#include <thread>

#include "eager_fixture.h"
#include "engine/eager_sender.h"
#include "engine/transfer.h"
#include "log_lines.h"
#include "sim/stranger.h"

namespace railyard::test {
namespace {

/// For what a target does that is driven, or not.
class SleepyTargetTest : public EagerTest {};

/// The second time, of several fragments.
TEST_P(EagerTest, DataAndNotificationAreOneMessage) {
    start();
    for (const std::size_t length : {std::size_t{100}, std::size_t{1000}}) {
        Transfer* const transfer = acquainted(16, length);
        std::uint64_t operations_before = operations(), messages_before = messages();
        constexpr std::uint32_t rounds = 50;
        for (std::uint32_t round = 1; round <= rounds; ++round) {
            fill_pattern(from().bytes, round);
            const std::vector<std::uint8_t> before = to().bytes;
            const std::string text = "round " + std::to_string(round);
            const Clock::time_point posted = Clock::now();
            Status status = pair_->a->post(*transfer, &text);
            if (status == Status::in_progress) status = pair_->wait(*transfer);
            ASSERT_EQ(status, Status::ok);
            for (std::size_t at = 0; at < size; ++at) {
                const bool moved = at < 32 * length && at / length % 2 == 0;
                ASSERT_EQ(to().bytes[at], moved ? from().bytes[at] : before[at]) << "byte " << at;
            }
            const auto got = pair_->notifications(1);
            ASSERT_EQ(got.size(), 1u);
            EXPECT_EQ(got[0].agent, "alpha");
            EXPECT_EQ(got[0].message, text);
            EXPECT_EQ(operations(), operations_before) << text;
            // Asked twice, the peer may have forgotten us, and the next ones go the ordinary way.
            if (Clock::now() - posted < std::chrono::nanoseconds(2 * EagerSender::first_pause_ns)) continue;
            const std::uint64_t messages_then = messages();
            pair_->a->release(acquainted());
            operations_before = operations();
            messages_before += messages() - messages_then;
        }
        const bool in_fragments = length == 1000 && GetParam().operation == Operation::write;
        const std::uint32_t expected = in_fragments ? 2 * rounds : rounds;
        EXPECT_GE(messages() - messages_before, expected);
        EXPECT_LE(messages() - messages_before, expected + 20)
            << "pings, where it takes long, and what is repeated";
        pair_->a->release(transfer);
    }
}

TEST_P(EagerTest, APostWithoutANotificationBringsNone) {
    start();
    const auto run_without = [&](Transfer& transfer) {
        const Status status = pair_->a->post_without_notification(transfer);
        return status == Status::in_progress ? pair_->wait(transfer) : status;
    };
    for (const std::size_t pieces : {std::size_t{1}, std::size_t{16}}) {
        Transfer* const transfer = acquainted(pieces);
        fill_pattern(from().bytes, 7);
        ASSERT_EQ(run_without(*transfer), Status::ok);
        EXPECT_TRUE(std::equal(to().bytes.begin(), to().bytes.begin() + 8, from().bytes.begin()));
        ASSERT_EQ(pair_->run(*transfer), Status::ok) << "as the one before";
        const std::string text = "named";
        Status status = pair_->a->post(*transfer, &text);
        if (status == Status::in_progress) status = pair_->wait(*transfer);
        ASSERT_EQ(status, Status::ok);
        ASSERT_EQ(run_without(*transfer), Status::ok);
        const auto got = pair_->notifications(1);
        ASSERT_EQ(got.size(), 1u);
        EXPECT_EQ(got[0].message, text);
        pair_->a->release(transfer);
    }
}

TEST_P(EagerTest, OthersGoTheOrdinaryWay) {
    start();
    pair_->a->release(acquainted());
    expect_ordinary(prepare(1, 8, std::nullopt), 0, "one piece and no notification");
    expect_ordinary(prepare(1, 16385), 1, "too long");
    expect_ordinary(prepare(12, 2049), 1, "too long for its pieces");
    const std::string text(std::size_t{1} << 20, 't');
    expect_ordinary(prepare(1, 8), 1, "with its notification too long", &text);
    EXPECT_EQ(operations_of(*prepare(12, 8, std::nullopt)), 0u) << "in pieces";
    EXPECT_EQ(operations_of(*prepare(16, 2048, std::nullopt)), 0u) << "in larger ones";
    Transfer* const first = prepare(1, 8, std::nullopt);
    const std::uint64_t before = operations();
    const std::string late = "given with the post";
    EXPECT_EQ(pair_->run(*first), Status::ok);
    EXPECT_EQ(operations(), before + 1);
    static_cast<void>(pair_->a->post(*first, &late));
    EXPECT_EQ(pair_->wait(*first), Status::ok);
    EXPECT_EQ(pair_->notifications(1)[0].message, late);
    EXPECT_EQ(operations(), before + 1) << "this one needs no operation";
    pair_->a->release(first);
}

/// Where each byte that another thread has had is looked into, as races that pass through sockets are, a
/// message of 1 MiB takes seconds.
#ifdef __SANITIZE_THREAD__
constexpr bool bytes_are_slow = true;
#else
constexpr bool bytes_are_slow = false;
#endif

/// A thousand operations, else.
TEST_P(EagerTest, ManySmallPiecesAreOneMessage) {
    size = std::size_t{4} << 20;
    start();
    pair_->a->release(acquainted());
    expect_ordinary(prepare(64, 1025), 1, "of larger pieces");
    using Pieces = std::pair<std::size_t, std::size_t>;
    for (const auto& [pieces, length] :
         {Pieces{4000, bytes_are_slow ? 17 : 100}, Pieces{bytes_are_slow ? 65 : 1023, 1024}}) {
        Transfer* const transfer = prepare(pieces, length);
        ASSERT_TRUE(transfer->eager);
        const std::uint64_t before = operations();
        for (std::uint32_t round = 1; round <= 3; ++round) {
            fill_pattern(from().bytes, round);
            std::vector<std::uint8_t> expected = to().bytes;
            for (std::size_t i = 0; i < pieces; ++i)
                std::copy_n(&from().bytes[2 * i * length], length, &expected[2 * i * length]);
            ASSERT_EQ(pair_->run(*transfer), Status::ok);
            EXPECT_EQ(to().bytes, expected);
            EXPECT_EQ(pair_->notifications(1).size(), 1u);
            EXPECT_LE(transfer->eager->message.message.capacity(), EagerSender::own_buffer)
                << "a prepared handle keeps a buffer of its whole length";
        }
        EXPECT_EQ(operations(), before);
        pair_->a->release(transfer);
    }
}

/// More bytes than may be under way so: the others go the ordinary way, and nobody waits for room.
TEST_P(EagerTest, LongMessagesAreFewAtOnce) {
    if (bytes_are_slow)
        GTEST_SKIP() << "with ThreadSanitizer its bytes take longer than a peer is waited for";
    size = std::size_t{4} << 20;
    start();
    pair_->a->release(acquainted());
    constexpr std::size_t count = 5;
    std::vector<Transfer*> burst;
    for (std::size_t i = 0; i < count; ++i)
        burst.push_back(prepare(1000, 1000));
    fill_pattern(from().bytes, 1);
    const std::uint64_t before = operations();
    for (Transfer* transfer : burst)
        ASSERT_EQ(pair_->a->post(*transfer), Status::in_progress);
    EXPECT_GT(std::count_if(burst.begin(), burst.end(), [](Transfer* one) { return one->eagerly; }), 0);
    EXPECT_GT(std::count_if(burst.begin(), burst.end(), [](Transfer* one) { return !one->eagerly; }), 0);
    for (Transfer* transfer : burst)
        EXPECT_EQ(pair_->wait(*transfer), Status::ok);
    EXPECT_EQ(pair_->notifications(count).size(), count);
    EXPECT_GT(operations(), before);
    for (std::size_t i = 0; i < 1000; ++i)
        ASSERT_EQ(std::memcmp(&to().bytes[2000 * i], &from().bytes[2000 * i], 1000), 0) << "piece " << i;
    for (Transfer* transfer : burst)
        pair_->a->release(transfer);
}

TEST_P(EagerTest, NobodyDoesSoWhereEitherSideHasItOff) {
    start({{"eager_limit", "0"}});
    for (int round = 0; round < 20; ++round)
        expect_ordinary(prepare(1, 8), 1, "off");
    EXPECT_FALSE(remote_->eager);
}

/// Many callers, each with transfers of its own: none is lost, none comes twice.
TEST_P(EagerTest, ThreadsDoNotGetIntoEachOthersWay) {
    if (!GetParam().fabric.progress_thread) GTEST_SKIP() << "needs progress threads";
    start();
    acquainted();
    constexpr std::uint32_t threads = 4, rounds = 300;
    std::vector<std::thread> callers;
    std::atomic<std::uint32_t> failed{0};
    for (std::uint32_t caller = 0; caller < threads; ++caller) {
        callers.emplace_back([&, caller] {
            const std::size_t at = 1024 + caller * 8;
            const LocalDescriptor local = source_->local(at, 8);
            const RemoteDescriptor remote{target_->address() + at, 8, &remote_};
            const std::string text(1, static_cast<char>('a' + caller));
            Transfer* const transfer =
                pair_->a->prepare(GetParam().operation, {&local, 1}, {&remote, 1}, "beta", text);
            for (std::uint32_t round = 1; round <= rounds; ++round) {
                std::fill_n(&from().bytes[at], 8, static_cast<std::uint8_t>(round));
                if (run_alone(*pair_->a, *transfer) != Status::ok) ++failed;
                if (to().bytes[at + 7] != static_cast<std::uint8_t>(round)) ++failed;
            }
            pair_->a->release(transfer);
        });
    }
    for (std::thread& caller : callers)
        caller.join();
    EXPECT_EQ(failed.load(), 0u);
    std::vector<std::uint32_t> told(threads);
    for (const Notification& one : pair_->notifications(threads * rounds))
        ++told.at(static_cast<std::size_t>(one.message[0] - 'a'));
    EXPECT_EQ(told, std::vector<std::uint32_t>(threads, rounds));
}

/// That the kernel has it, or the target's provider, is not enough; and however often it has been sent
/// meanwhile, it is taken once.
TEST_P(SleepyTargetTest, EndsWhenTheBytesAreInTheirPlace) {
    start();
    Transfer* const transfer = acquainted();
    std::fill_n(from().bytes.begin(), 8, std::uint8_t{1});
    const std::uint64_t before = messages();
    ASSERT_EQ(pair_->a->post(*transfer), Status::in_progress);
    for (int i = 0; i < 30 && (i < 4 || messages() - before < 3); ++i)
        drive_alone(*transfer, milliseconds(100));
    EXPECT_EQ(pair_->a->poll(*transfer), Status::in_progress) << "ended before its bytes were there";
    EXPECT_GE(messages() - before, 3u) << "nobody is asked again";
    EXPECT_EQ(pair_->wait(*transfer), Status::ok);
    EXPECT_EQ(to().bytes[7], 1);
    EXPECT_EQ(pair_->notifications(1).size(), 1u);
    std::fill_n(to().bytes.begin(), 8, std::uint8_t{2});
    pair_->until([] { return false; }, milliseconds(300));
    EXPECT_FALSE(pair_->b->has_notifications()) << "taken twice";
    EXPECT_EQ(to().bytes[7], 2) << "written twice";
    pair_->a->release(transfer);
}

/// Its application has removed us, as it has to before it can load what has changed of us; our memory of its
/// keys is as good as before.
TEST_P(SleepyTargetTest, ATargetWhoseApplicationHasRemovedWhoAsksAnswersAtOnce) {
    start();
    Transfer* const transfer = acquainted();
    const std::string info = pair_->a->connection_info();
    const LogLines warnings;
    auto shortest = Clock::duration::max();
    for (std::uint8_t round = 3; round < 6; ++round) {
        pair_->b->load_connection_info("alpha", info);
        pair_->b->disconnect("alpha");
        std::fill_n(from().bytes.begin(), 8, round);
        const auto begun = Clock::now();
        EXPECT_EQ(pair_->run(*transfer), Status::ok);
        shortest = std::min(shortest, Clock::now() - begun);
        EXPECT_EQ(to().bytes[0], round);
        EXPECT_EQ(pair_->notifications(1).size(), 1u);
    }
    EXPECT_LT(shortest, milliseconds(100));
    EXPECT_EQ(LogLines::count(), 0) << LogLines::all().front();
    pair_->a->release(transfer);
}

/// Another instance of our name has been loaded there in our place.
TEST_P(SleepyTargetTest, ATargetThatHasForgottenWhoAsksIsIntroducedAgain) {
    start();
    Transfer* const transfer = acquainted();
    const auto other = make_engine("alpha", GetParam().fabric);
    pair_->b->load_connection_info("alpha", other->connection_info());
    const LogLines log;
    std::fill_n(from().bytes.begin(), 8, std::uint8_t{3});
    const auto begun = Clock::now();
    EXPECT_EQ(pair_->run(*transfer), Status::ok);
    EXPECT_LT(Clock::now() - begun, milliseconds(3000));
    EXPECT_TRUE(LogLines::contain("has not introduced itself")) << "it had not forgotten us";
    EXPECT_EQ(to().bytes[0], 3);
    EXPECT_EQ(pair_->notifications(1).size(), 1u);
    pair_->a->release(transfer);
}

TEST_P(SleepyTargetTest, MemoryThatIsGoneThereIsAnError) {
    start();
    Transfer* const transfer = acquainted();
    pair_->b->deregister_memory(target_->region);
    std::fill_n(from().bytes.begin(), 8, std::uint8_t{4});
    EXPECT_EQ(pair_->run(*transfer), Status::invalid_param);
    EXPECT_NE(to().bytes[0], 4);
    EXPECT_FALSE(pair_->b->has_notifications());
    pair_->a->release(transfer);
}

/// It is not what such an error means of other transfers. Said in the target's place, as it takes much until
/// one says so.
TEST_P(SleepyTargetTest, WhatItIsRefusedForIsSaid) {
    start();
    Transfer* const transfer = acquainted();
    Stranger stranger(*pair_->a, {"tcp", 1, false});
    const std::uint64_t target = decode_connection(pair_->b->connection_info()).nonce;
    const LogLines lines;
    const auto refuse = [&](Status status) {
        ASSERT_EQ(pair_->a->post(*transfer), Status::in_progress);
        ASSERT_TRUE(transfer->eagerly);
        stranger.say(MessageKind::eager_answer, "beta", target, encode(Answer{transfer->eager->id, status}));
        EXPECT_EQ(wait_alone(*pair_->a, *transfer, Status::in_progress), status);
    };
    refuse(Status::not_allowed);
    EXPECT_EQ(lines.count("too many notifications wait for the peer's application"), 1);
    refuse(Status::backend);
    EXPECT_EQ(lines.count("does not know what became of it"), 1);
    EXPECT_EQ(lines.count("is its memory still registered"), 0);
    pair_->a->release(transfer);
}

TEST_P(SleepyTargetTest, APeerThatSleepsOnIsGivenUp) {
    start({{"peer_timeout_ms", "1000"}});
    Transfer* const transfer = acquainted();
    const auto begun = Clock::now();
    EXPECT_EQ(run_alone(*pair_->a, *transfer), Status::remote_disconnect);
    EXPECT_LT(Clock::now() - begun, milliseconds(4000));
    pair_->a->release(transfer);
}

/// With a target that sleeps on: nobody waits for it.
TEST_P(SleepyTargetTest, ReleasedUnderWayItWaitsForNobody) {
    start();
    Transfer* const transfer = acquainted();
    Transfer* const other = prepare(1, 8);
    ASSERT_EQ(pair_->a->post(*transfer), Status::in_progress);
    const auto begun = Clock::now();
    pair_->a->release(transfer);
    EXPECT_LT(Clock::now() - begun, milliseconds(1000));
    EXPECT_EQ(pair_->run(*other), Status::ok);
    pair_->a->release(other);
}

/// Whatever the answer to the READ still brings.
TEST_P(SleepyTargetTest, MemoryOfAReleasedReadIsLeftAlone) {
    if (GetParam().operation != Operation::read) GTEST_SKIP() << "of READs";
    start();
    Transfer* const transfer = acquainted();
    std::fill_n(target_->bytes.begin(), 8, std::uint8_t{6});
    ASSERT_EQ(pair_->a->post(*transfer), Status::in_progress);
    drive_alone(*transfer, milliseconds(5));
    pair_->a->release(transfer);
    std::fill_n(source_->bytes.begin(), 8, std::uint8_t{5});
    EXPECT_EQ(pair_->notifications(1).size(), 1u) << "it has been read there";
    pair_->until([] { return false; }, milliseconds(100));
    EXPECT_EQ(source_->bytes[0], 5);
}

/// As many as may be under way, and more.
TEST_P(SleepyTargetTest, ABurstComesWhole) {
    start();
    acquainted();
    std::vector<Transfer*> burst;
    for (int i = 0; i < 50; ++i)
        burst.push_back(prepare(1, 8));
    const std::uint64_t before = operations();
    for (Transfer* transfer : burst)
        ASSERT_EQ(pair_->a->post(*transfer), Status::in_progress);
    for (Transfer* transfer : burst)
        EXPECT_EQ(pair_->wait(*transfer), Status::ok);
    EXPECT_EQ(pair_->notifications(burst.size()).size(), burst.size());
    EXPECT_GT(operations(), before) << "one peer is asked to take any number of messages";
    EXPECT_LT(operations(), before + burst.size()) << "none went as a message";
    for (Transfer* transfer : burst)
        pair_->a->release(transfer);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, EagerTest,
                         testing::ValuesIn(both_ways({{"tcp", 1, false}, {"tcp", 2, true}})), case_name);
INSTANTIATE_TEST_SUITE_P(Fabrics, SleepyTargetTest,
                         testing::ValuesIn(both_ways({{"tcp", 1, false}, {"tcp", 2, false}})), case_name);

}  // namespace
}  // namespace railyard::test
