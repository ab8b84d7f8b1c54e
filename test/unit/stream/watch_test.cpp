// Who asks the driver about streams, and what becomes of the engine while the driver does not answer.
#include <atomic>

#include "first_launch.h"
#include "own_threads.h"
#include "stream_pair.h"

namespace railyard::test {
namespace {

std::size_t watching_threads() {
    return own_threads("railyard-stream").size();
}

/// A thread that was joined may be listed for a moment.
bool nobody_watches() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (watching_threads() != 0) {
        if (std::chrono::steady_clock::now() >= limit) return false;
        std::this_thread::yield();
    }
    return true;
}

class StreamWatching : public OnStreams {};

TEST_P(StreamWatching, HasAThreadFromTheFirstTransferOnAStreamUntilTheEnd) {
    const ProgramStream stream(context());
    {
        StreamPair side(thread());
        Buffer source(*side.pair.a, 64, 7), target(*side.pair.b, 64);
        EXPECT_EQ(watching_threads(), 0u);
        Transfer* first = side.prepare(Operation::write, source, target, stream);
        Transfer* second = side.prepare(Operation::write, source, target, stream);
        EXPECT_EQ(side.pair.run(*first), Status::ok);
        EXPECT_EQ(watching_threads(), 1u);
        side.pair.a->release(first);
        side.pair.a->release(second);
    }
    EXPECT_TRUE(nobody_watches());
}

TEST_P(StreamWatching, SleepsWhileNoTransferWaitsForItsStream) {
    StreamPair side(thread());
    const ProgramStream stream(context());
    Buffer source(*side.pair.a, 64, 7), target(*side.pair.b, 64);
    Transfer* transfer = side.prepare(Operation::write, source, target, stream);
    const auto calls_in = [&](int milliseconds) {
        const std::size_t before = fake().statistics().calls;
        side.pair.until([] { return false; }, std::chrono::milliseconds(milliseconds));
        return fake().statistics().calls - before;
    };
    EXPECT_EQ(calls_in(150), 0u);
    {
        StreamGate gate(stream);
        ASSERT_EQ(side.pair.a->post(*transfer), Status::in_progress);
        EXPECT_TRUE(side.pair.until([&, before = fake().statistics().calls] {
            return fake().statistics().calls >= before + 8;
        })) << "a stream that waits is not looked at";
    }
    EXPECT_EQ(side.pair.wait(*transfer), Status::ok);
    calls_in(100);  // the last look
    EXPECT_EQ(calls_in(150), 0u);
    side.pair.a->release(transfer);
}

/// What waits for the driver, as a program that launches its first kernel makes it, is not who makes
/// progress.
TEST_P(StreamWatching, ProgressGoesOnWhileTheDriverHoldsCallsUp) {
    StreamPair side(thread());
    const ProgramStream stream(context()), blocked(context());
    Buffer source(*side.pair.a, 4096, 7), target(*side.pair.b, 4096);
    Transfer* armed = side.prepare(Operation::write, source, target, blocked);
    const auto region = side.pair.publish(target);
    const LocalDescriptor from = source.local(0, 4096);
    const RemoteDescriptor to{target.address(), 4096, &region};
    Transfer* plain = side.pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    StreamGate gate(blocked);
    ASSERT_EQ(side.pair.a->post(*armed), Status::in_progress);
    const std::size_t held_up = fake().statistics().held_up;
    FirstLaunch launch(stream.context());
    EXPECT_TRUE(side.pair.until([&] { return fake().statistics().held_up > held_up; }));
    for (int i = 0; i < 10; ++i)
        EXPECT_EQ(side.pair.run(*plain), Status::ok);
    EXPECT_EQ(fake().statistics().held_up, held_up + 1);
    gate.open();
    EXPECT_EQ(side.pair.wait(*armed), Status::ok);
    EXPECT_EQ(launch.join(), unsigned{CUDA_SUCCESS});
    side.pair.a->release(armed);
    side.pair.a->release(plain);
}

/// The READ that the stream waits for is ended by the engine's going, so that the call comes back.
TEST_P(StreamWatching, AnEngineThatGoesFreesCallsThatWaitForIt) {
    const ProgramStream stream(context());
    std::unique_ptr<FirstLaunch> launch;
    const auto before = fake().statistics();
    {
        StreamPair side(thread());
        Buffer into(*side.pair.a, 64), from(*side.pair.b, 64, 7);
        Transfer* first = side.prepare(Operation::read, into, from, stream);
        Transfer* second = side.prepare(Operation::read, into, from, stream);
        side.pair.b.reset();  // nobody answers
        ASSERT_EQ(side.pair.a->post(*first), Status::in_progress);
        ASSERT_EQ(side.pair.a->post(*second), Status::in_progress);
        launch = std::make_unique<FirstLaunch>(stream.context());
        EXPECT_TRUE(side.pair.until([&] { return fake().statistics().held_up > before.held_up; }));
    }
    EXPECT_EQ(launch->join(), unsigned{CUDA_SUCCESS});
    EXPECT_EQ(fake().statistics().host_allocations, before.host_allocations);
    EXPECT_EQ(fake().statistics().events, before.events);
    EXPECT_TRUE(nobody_watches());
}

/// What holds the call up is none of ours. The thread is left to it, and cleans up when it comes back.
TEST_P(StreamWatching, AnEngineGoesThoughTheDriverDoesNotComeBack) {
    const ProgramStream stream(context()), blocked(context());
    const auto before = fake().statistics();
    StreamGate gate(blocked);
    LogLines log;
    std::unique_ptr<FirstLaunch> launch;
    std::chrono::steady_clock::time_point start;
    {
        StreamPair side(thread());
        Buffer source(*side.pair.a, 64, 7), target(*side.pair.b, 64);
        Transfer* transfer = side.prepare(Operation::write, source, target, blocked);
        ASSERT_EQ(side.pair.a->post(*transfer), Status::in_progress);
        launch = std::make_unique<FirstLaunch>(stream.context(), 20'000);
        EXPECT_TRUE(side.pair.until([&] { return fake().statistics().held_up > before.held_up; }));
        start = std::chrono::steady_clock::now();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
    EXPECT_TRUE(log.contain("a call of the driver has not come back"));
    EXPECT_EQ(watching_threads(), 1u);
    gate.open();
    EXPECT_EQ(launch->join(), unsigned{CUDA_SUCCESS});
    EXPECT_TRUE(nobody_watches());
    EXPECT_EQ(fake().statistics().host_allocations, before.host_allocations);
    EXPECT_EQ(fake().statistics().events, before.events);
}

INSTANTIATE_TEST_SUITE_P(Modes, StreamWatching, testing::Bool(), mode_name);

}  // namespace
}  // namespace railyard::test
