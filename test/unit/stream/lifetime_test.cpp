// Lanes come and go with their transfers, and leave nothing behind.
#include "stream_pair.h"

namespace railyard::test {
namespace {

class StreamLifetime : public OnStreams {};

TEST_P(StreamLifetime, RequestsOnChangingStreamsLeaveNothing) {
    StreamPair side(thread());
    Buffer source(*side.pair.a, 64, 7), target(*side.pair.b, 64);
    const int requests = thread() ? 3'000 : 1'000;
    fakecuda_statistics warm{};
    for (int i = 0; i < requests; ++i) {
        {
            const ProgramStream stream(context(i % 3));
            Transfer* transfer =
                side.prepare(i % 2 ? Operation::read : Operation::write, source, target, stream);
            ASSERT_EQ(side.pair.run(*transfer), Status::ok);
            side.pair.a->release(transfer);
        }
        if (i == 99) warm = fake().statistics();
    }
    const fakecuda_statistics after = fake().statistics();
    EXPECT_EQ(after.host_allocations, warm.host_allocations);
    EXPECT_LE(after.events, warm.events + 2);  // of lanes that wait for the next look
    EXPECT_EQ(after.streams, warm.streams);
    EXPECT_EQ(after.contexts, warm.contexts);
    EXPECT_EQ(after.primary_retains, warm.primary_retains);
}

TEST_P(StreamLifetime, OneLaneForAllTransfersOfAStream) {
    StreamPair side(thread());
    const ProgramStream stream(context());
    Buffer source(*side.pair.a, 64, 7), target(*side.pair.b, 64);
    std::vector<Transfer*> transfers{side.prepare(Operation::write, source, target, stream)};
    const fakecuda_statistics before = fake().statistics();
    for (int i = 0; i < 100; ++i)
        transfers.push_back(side.prepare(Operation::write, source, target, stream));
    EXPECT_EQ(fake().statistics().events, before.events);
    EXPECT_EQ(fake().statistics().host_allocations, before.host_allocations);
    for (Transfer* transfer : transfers)
        side.pair.a->release(transfer);
}

/// The handle of the per-thread default stream means another stream to every thread.
TEST_P(StreamLifetime, TransfersOfPerThreadDefaultStreamsShareNoLane) {
    StreamPair side(thread());
    const ContextPtr held = context();
    const ContextGuard guard(*held);
    Buffer source(*side.pair.a, 64, 7), target(*side.pair.b, 64);
    const auto region = side.pair.publish(target);
    const LocalDescriptor from = source.local(0, 64);
    const RemoteDescriptor to{target.address(), 64, &region};
    std::vector<Transfer*> transfers;
    for (const auto& [handle, lanes] : {std::pair{std::uint64_t{1}, 1u}, {2, 3u}}) {
        const fakecuda_statistics before = fake().statistics();
        for (int i = 0; i < 3; ++i) {
            transfers.push_back(
                side.pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt));
            side.streams->attach(*transfers.back(), {reinterpret_cast<const char*>(&handle), sizeof(handle)});
            EXPECT_EQ(side.pair.run(*transfers.back()), Status::ok);
        }
        EXPECT_EQ(fake().statistics().events, before.events + lanes);
    }
    for (Transfer* transfer : transfers)
        side.pair.a->release(transfer);
}

/// An event that another thread records stands behind another stream.
TEST_P(StreamLifetime, OnlyItsThreadLooksBehindWhatAPerThreadStreamHas) {
    StreamPair side(thread());
    const ContextPtr held = context();
    const ContextGuard guard(*held);
    const ProgramStream stream(held);
    Buffer source(*side.pair.a, 64, 7), target(*side.pair.b, 64);
    Transfer* transfer = side.prepare_per_thread(source, target);
    fake().fail("cuEventRecord", 1, CUDA_ERROR_INVALID_HANDLE);
    ASSERT_EQ(side.pair.a->post(*transfer), Status::backend);
    const fakecuda_statistics before = fake().statistics();
    side.pair.a->release(transfer);
    std::vector<Transfer*> next;
    std::thread([&] {
        for (int i = 0; i < 3; ++i) {
            next.push_back(side.prepare(Operation::write, source, target, stream));
            side.pair.until([] { return false; }, std::chrono::milliseconds(20));
        }
    }).join();
    EXPECT_EQ(fake().statistics().events, before.events + 1) << "its lane stays";
    EXPECT_TRUE(side.pair.until([&] {
        next.push_back(side.prepare(Operation::write, source, target, stream));
        return fake().statistics().events == before.events;
    }));
    for (Transfer* each : next)
        side.pair.a->release(each);
}

/// More lanes at a time than one allocation has cells for.
TEST_P(StreamLifetime, SixHundredStreamsAtOnce) {
    StreamPair side(thread());
    Buffer source(*side.pair.a, 64, 7), target(*side.pair.b, 64);
    std::vector<std::unique_ptr<ProgramStream>> streams;
    std::vector<Transfer*> transfers;
    for (int i = 0; i < 600; ++i) {
        streams.push_back(std::make_unique<ProgramStream>(context()));
        transfers.push_back(side.prepare(Operation::write, source, target, *streams.back()));
    }
    for (Transfer* transfer : transfers)
        ASSERT_EQ(side.pair.a->post(*transfer), Status::in_progress);
    for (Transfer* transfer : transfers) {
        ASSERT_EQ(side.pair.wait(*transfer), Status::ok);
        side.pair.a->release(transfer);
    }
}

/// Its words must not go to another lane while the stream can still write to them.
TEST_P(StreamLifetime, AReleasedTransfersWordsWaitForItsStream) {
    StreamPair side(thread());
    const ProgramStream blocked(context()), other(context());
    Buffer source(*side.pair.a, 64, 7), target(*side.pair.b, 64);
    Transfer* transfer = side.prepare(Operation::write, source, target, blocked);
    StreamGate gate(blocked);
    ASSERT_EQ(side.pair.a->post(*transfer), Status::in_progress);
    const fakecuda_statistics before = fake().statistics();
    side.pair.a->release(transfer);
    for (const char* failing : {"nothing", "cuEventQuery", "cuCtxPushCurrent"}) {
        fake().fail(failing, 0, CUDA_ERROR_OUT_OF_MEMORY);  // no word that the stream is through
        side.pair.until([] { return false; }, std::chrono::milliseconds(120));
        fake().fail(failing, 0, 0);
    }
    Transfer* second = side.prepare(Operation::write, source, target, other);
    EXPECT_EQ(fake().statistics().events, before.events + 1);
    gate.open();
    EXPECT_EQ(side.pair.run(*second), Status::ok);
    ASSERT_TRUE(side.until_idle(blocked));
    Transfer* third = side.prepare(Operation::write, source, target, other);
    EXPECT_EQ(fake().statistics().events, before.events);
    side.pair.a->release(second);
    side.pair.a->release(third);
}

TEST_P(StreamLifetime, TeardownLetsWaitingStreamsPass) {
    const ProgramStream stream(context());
    {
        StreamPair side(thread());
        Buffer into(*side.pair.a, 64), from(*side.pair.b, 64, 7);
        Transfer* transfer = side.prepare(Operation::read, into, from, stream);
        side.pair.b.reset();  // nobody answers: the stream waits
        ASSERT_EQ(side.pair.a->post(*transfer), Status::in_progress);
    }
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!stream.idle() && std::chrono::steady_clock::now() < limit)
        std::this_thread::yield();
    EXPECT_TRUE(stream.idle());
}

TEST_P(StreamLifetime, TheCallersContextStays) {
    const ContextPtr held = context(2);
    const ContextGuard guard(*held);
    {
        StreamPair side(thread());
        const ProgramStream stream(context(1));
        Buffer source(*side.pair.a, 64, 7), target(*side.pair.b, 64);
        Transfer* transfer = side.prepare(Operation::write, source, target, stream);
        EXPECT_EQ(current(), held->get());
        ASSERT_EQ(side.pair.a->post(*transfer), Status::in_progress);
        EXPECT_EQ(current(), held->get());
        EXPECT_EQ(side.pair.wait(*transfer), Status::ok);
        EXPECT_EQ(current(), held->get());
        side.pair.a->release(transfer);
        EXPECT_EQ(current(), held->get());
    }
    EXPECT_EQ(current(), held->get());
}

/// After two seconds, the pinned memory that the stream will write to is left allocated, and said so.
class StreamTeardown : public testing::Test {};

TEST_F(StreamTeardown, BehindABlockedStreamLeavesTheMemoryThatItWillWriteTo) {
    const cuda::DriverLookup found = cuda::find_driver();
    ASSERT_TRUE(found.driver);
    const ProgramStream stream(std::make_shared<cuda::PrimaryContext>(*found.driver, 0));
    const auto before = fake().statistics();
    StreamGate gate(stream);
    LogLines log;
    const auto start = std::chrono::steady_clock::now();
    {
        StreamPair side(false);
        Buffer source(*side.pair.a, 64, 7), target(*side.pair.b, 64);
        ASSERT_EQ(side.pair.a->post(*side.prepare(Operation::write, source, target, stream)),
                  Status::in_progress);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
    EXPECT_TRUE(log.contain("1 streams have not come to the transfers posted on them"));
    EXPECT_EQ(fake().statistics().host_allocations, before.host_allocations + 1);
    gate.open();
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!stream.idle() && std::chrono::steady_clock::now() < limit)
        std::this_thread::yield();
    EXPECT_TRUE(stream.idle());
}

INSTANTIATE_TEST_SUITE_P(Modes, StreamLifetime, testing::Bool(), mode_name);

}  // namespace
}  // namespace railyard::test
