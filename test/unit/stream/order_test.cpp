// A transfer takes its place among what is on its stream.
#include <thread>

#include "stream_pair.h"

namespace railyard::test {
namespace {

class StreamOrder : public OnStreams {};
class StreamWait : public cuda::OnFakeDriver {};

constexpr std::size_t size = 200'000;

TEST_P(StreamOrder, AWriteSendsWhatTheStreamWroteBefore) {
    StreamPair side(thread(), "both");
    const ProgramStream stream(context());
    Buffer source(*side.pair.a, size), target(*side.pair.b, size);
    Transfer* transfer = side.prepare(Operation::write, source, target, stream);
    std::vector<std::uint8_t> expected(size);
    for (std::uint32_t round = 1; round <= 20; ++round) {
        stream.launch([&, round] {
            std::this_thread::sleep_for(std::chrono::microseconds(500));
            fill_pattern(source.bytes, round);
        });
        ASSERT_EQ(side.pair.a->post(*transfer), Status::in_progress);
        // Held up by the transfer, as stream_wait says.
        stream.launch([&] { std::fill(source.bytes.begin(), source.bytes.end(), std::uint8_t{0}); });
        ASSERT_EQ(side.pair.wait(*transfer), Status::ok);
        fill_pattern(expected, round);
        ASSERT_TRUE(target.bytes == expected) << round;
    }
    EXPECT_TRUE(side.until_idle(stream));
    side.pair.a->release(transfer);
}

TEST_P(StreamOrder, WhatFollowsAReadSeesTheData) {
    StreamPair side(thread());
    const ProgramStream stream(context());
    Buffer into(*side.pair.a, size), from(*side.pair.b, size);
    Transfer* transfer = side.prepare(Operation::read, into, from, stream);
    std::vector<std::uint8_t> seen(size);
    for (std::uint32_t round = 1; round <= 20; ++round) {
        fill_pattern(from.bytes, round);
        ASSERT_EQ(side.pair.a->post(*transfer), Status::in_progress);
        stream.launch([&] { seen = into.bytes; });
        ASSERT_TRUE(side.until_idle(stream));
        EXPECT_TRUE(seen == from.bytes) << round;
        ASSERT_EQ(side.pair.wait(*transfer), Status::ok);
    }
    side.pair.a->release(transfer);
}

/// Nobody drives the engines, so the transfer cannot end; only its stream knows whether it waits.
TEST_F(StreamWait, HoldsUpWhatItNames) {
    for (const auto& [wait, read_waits, write_waits] : {std::tuple{"read", true, false},
                                                        {"write", false, true},
                                                        {"both", true, true},
                                                        {"none", false, false}}) {
        for (const Operation operation : {Operation::read, Operation::write}) {
            StreamPair side(false, wait);
            const ProgramStream stream(context());
            Buffer local(*side.pair.a, 64), remote(*side.pair.b, 64);
            Transfer* transfer = side.prepare(operation, local, remote, stream);
            ASSERT_EQ(side.pair.a->post(*transfer), Status::in_progress);
            const bool waits = operation == Operation::read ? read_waits : write_waits;
            const auto limit =
                std::chrono::steady_clock::now() + std::chrono::milliseconds(waits ? 50 : 10'000);
            while (!stream.idle() && std::chrono::steady_clock::now() < limit)
                std::this_thread::yield();
            EXPECT_EQ(stream.idle(), !waits) << wait << (operation == Operation::read ? " READ" : " WRITE");
            EXPECT_EQ(side.pair.wait(*transfer), Status::ok);
            EXPECT_TRUE(side.until_idle(stream));
            side.pair.a->release(transfer);
        }
    }
}

TEST_P(StreamOrder, NothingStartsBeforeItsStreamCameToIt) {
    StreamPair side(thread());
    const ProgramStream stream(context());
    Buffer source(*side.pair.a, size, 1), target(*side.pair.b, size);
    Transfer* transfer = side.prepare(Operation::write, source, target, stream);
    StreamGate gate(stream);
    ASSERT_EQ(side.pair.a->post(*transfer), Status::in_progress);
    EXPECT_FALSE(side.pair.until([&] { return side.pair.a->poll(*transfer) != Status::in_progress; },
                                 std::chrono::milliseconds(120)));
    EXPECT_EQ(std::count(target.bytes.begin(), target.bytes.end(), 1), 0);
    EXPECT_EQ(side.pair.a->post(*transfer), Status::repost_active);
    gate.open();
    EXPECT_EQ(side.pair.wait(*transfer), Status::ok);
    EXPECT_TRUE(target.bytes == source.bytes);
    side.pair.a->release(transfer);
}

TEST_P(StreamOrder, AnyNumberOfDescriptorsRequestsAndStreams) {
    constexpr std::size_t streams_count = 9, requests = 45, pieces = 700;
    StreamPair side(thread());
    std::vector<std::unique_ptr<ProgramStream>> streams;
    for (std::size_t i = 0; i < streams_count; ++i)
        streams.push_back(std::make_unique<ProgramStream>(context(static_cast<int>(i % 3))));
    std::vector<std::unique_ptr<Buffer>> sources, targets;
    std::vector<Transfer*> transfers;
    for (std::size_t i = 0; i < requests; ++i) {
        sources.push_back(std::make_unique<Buffer>(*side.pair.a, pieces * 16));
        targets.push_back(std::make_unique<Buffer>(*side.pair.b, pieces * 16));
        transfers.push_back(
            side.prepare(Operation::write, *sources[i], *targets[i], *streams[i % streams_count], pieces));
    }
    for (std::uint32_t round = 0; round < 3; ++round) {
        for (std::size_t i = 0; i < requests; ++i) {
            Buffer& source = *sources[i];
            streams[i % streams_count]->launch(
                [&source, seed = round * 1000 + static_cast<std::uint32_t>(i)] {
                    fill_pattern(source.bytes, seed);
                });
            ASSERT_EQ(side.pair.a->post(*transfers[i]), Status::in_progress);
        }
        for (std::size_t i = 0; i < requests; ++i) {
            ASSERT_EQ(side.pair.wait(*transfers[i]), Status::ok);
            std::vector<std::uint8_t> expected(pieces * 16);
            fill_pattern(expected, round * 1000 + static_cast<std::uint32_t>(i));
            ASSERT_TRUE(targets[i]->bytes == expected) << i;
        }
    }
    for (Transfer* transfer : transfers)
        side.pair.a->release(transfer);
}

TEST_P(StreamOrder, SeveralThreadsPostOnOneStreamAndOnTheirOwn) {
    constexpr std::size_t threads = 4, rounds = 40, length = 4096;
    StreamPair side(thread(), "both");
    const ProgramStream shared(context());
    std::vector<std::unique_ptr<ProgramStream>> own;
    std::vector<std::unique_ptr<Buffer>> sources, targets;
    std::vector<Transfer*> transfers;
    for (std::size_t i = 0; i < 2 * threads; ++i) {
        if (i < threads) own.push_back(std::make_unique<ProgramStream>(context(1)));
        sources.push_back(std::make_unique<Buffer>(*side.pair.a, length));
        targets.push_back(std::make_unique<Buffer>(*side.pair.b, length));
        transfers.push_back(
            side.prepare(Operation::write, *sources[i], *targets[i], i < threads ? *own[i] : shared));
    }
    std::atomic<std::size_t> finished{0};
    std::vector<std::thread> workers;
    for (std::size_t i = 0; i < 2 * threads; ++i) {
        workers.emplace_back([&, i] {
            const ProgramStream& stream = i < threads ? *own[i] : shared;
            std::vector<std::uint8_t> expected(length);
            for (std::size_t round = 0; round < rounds; ++round) {
                const auto seed = static_cast<std::uint32_t>(i * 1000 + round);
                stream.launch([&, seed] { fill_pattern(sources[i]->bytes, seed); });
                Status status = side.pair.a->post(*transfers[i]);
                const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
                while (status == Status::in_progress && std::chrono::steady_clock::now() < limit)
                    status = side.pair.a->poll(*transfers[i]);
                EXPECT_EQ(status, Status::ok);
                fill_pattern(expected, seed);
                EXPECT_TRUE(targets[i]->bytes == expected) << i << " in round " << round;
            }
            ++finished;
        });
    }
    EXPECT_TRUE(side.pair.until([&] { return finished == 2 * threads; }, std::chrono::seconds(60)));
    for (std::thread& worker : workers)
        worker.join();
    for (Transfer* transfer : transfers)
        side.pair.a->release(transfer);
}

TEST_P(StreamOrder, ANotificationFollowsItsData) {
    StreamPair side(thread());
    const ProgramStream stream(context());
    Buffer source(*side.pair.a, size), target(*side.pair.b, size);
    Transfer* transfer = side.prepare(Operation::write, source, target, stream, 1, "here");
    std::vector<std::uint8_t> expected(size);
    for (std::uint32_t round = 1; round <= 10; ++round) {
        StreamGate gate(stream);
        stream.launch([&, round] { fill_pattern(source.bytes, round); });
        ASSERT_EQ(side.pair.a->post(*transfer), Status::in_progress);
        std::vector<Notification> early;
        side.pair.until([&] { return gate.reached(); });
        side.pair.b->take_notifications(early);
        EXPECT_TRUE(early.empty());
        gate.open();
        const std::vector<Notification> got = side.pair.notifications(1);
        ASSERT_EQ(got.size(), 1u);
        EXPECT_EQ(got[0].message, "here");
        fill_pattern(expected, round);  // the source is the stream's until the transfer has ended here
        EXPECT_TRUE(target.bytes == expected) << round;
        EXPECT_EQ(side.pair.wait(*transfer), Status::ok);
    }
    side.pair.a->release(transfer);
}

INSTANTIATE_TEST_SUITE_P(Modes, StreamOrder, testing::Bool(), mode_name);

}  // namespace
}  // namespace railyard::test
