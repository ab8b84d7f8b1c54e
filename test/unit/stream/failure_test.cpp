// What fails ends, and holds no stream up.
#include "stream_pair.h"

namespace railyard::test {
namespace {

class StreamFailure : public OnStreams {};
class StreamNumbers : public cuda::OnFakeDriver {};

TEST_P(StreamFailure, APostThatTheDriverRefusesIsAnErrorAndTheNextOneWorks) {
    StreamPair side(thread(), "both");
    const ProgramStream stream(context());
    Buffer source(*side.pair.a, 4096, 7), target(*side.pair.b, 4096);
    Transfer* transfer = side.prepare(Operation::write, source, target, stream);
    for (const char* call : {"cuStreamIsCapturing", "cuStreamWriteValue64", "cuStreamWaitValue64",
                             "cuEventRecord", "cuCtxPushCurrent"}) {
        LogLines log;
        fake().fail(call, 1, CUDA_ERROR_INVALID_HANDLE);
        EXPECT_EQ(side.pair.a->post(*transfer), Status::backend) << call;
        EXPECT_TRUE(log.contain(call)) << call;
        EXPECT_EQ(side.pair.a->poll(*transfer), Status::backend) << call;
        EXPECT_TRUE(side.until_idle(stream)) << "hangs after " << call;
        fake().fail_nothing();
        std::fill(target.bytes.begin(), target.bytes.end(), std::uint8_t{0});
        StreamGate gate(stream);
        ASSERT_EQ(side.pair.a->post(*transfer), Status::in_progress) << call;
        EXPECT_FALSE(side.pair.until([&] { return side.pair.a->poll(*transfer) != Status::in_progress; },
                                     std::chrono::milliseconds(20)))
            << "what failed lets the next one start too early: " << call;
        gate.open();
        EXPECT_EQ(side.pair.wait(*transfer), Status::ok) << call;
        EXPECT_TRUE(target.bytes == source.bytes) << call;
    }
    EXPECT_TRUE(side.until_idle(stream));
    side.pair.a->release(transfer);
}

TEST_P(StreamFailure, ADeadStreamEndsItsTransfers) {
    StreamPair side(thread(), "both");
    const ProgramStream dead(context()), alive(context());
    Buffer source(*side.pair.a, 4096, 7), target(*side.pair.b, 4096);
    Transfer* first = side.prepare(Operation::write, source, target, dead);
    Transfer* second = side.prepare(Operation::read, source, target, dead);
    Transfer* other = side.prepare(Operation::write, source, target, alive);
    StreamGate gate(dead);
    ASSERT_TRUE(side.pair.until([&] { return gate.reached(); }));
    ASSERT_EQ(side.pair.a->post(*first), Status::in_progress);
    ASSERT_EQ(side.pair.a->post(*second), Status::in_progress);
    LogLines log;
    fake().fail("execute", 1, CUDA_ERROR_LAUNCH_FAILED);
    gate.open();
    EXPECT_EQ(side.pair.wait(*first), Status::backend);
    EXPECT_EQ(side.pair.wait(*second), Status::backend);
    EXPECT_TRUE(log.contain("CUDA_ERROR_LAUNCH_FAILED"));
    EXPECT_EQ(target.bytes[0], 0);
    EXPECT_EQ(side.pair.run(*first), Status::backend);  // and again
    EXPECT_EQ(side.pair.run(*other), Status::ok);
    for (Transfer* transfer : {first, second, other})
        side.pair.a->release(transfer);
}

TEST_P(StreamFailure, AnErrorThatPassesIsNoDeadStream) {
    StreamPair side(thread());
    const ProgramStream stream(context());
    Buffer source(*side.pair.a, 4096, 7), target(*side.pair.b, 4096);
    Transfer* transfer = side.prepare(Operation::write, source, target, stream);
    for (const char* failing : {"cuEventQuery", "cuCtxPushCurrent"}) {
        StreamGate gate(stream);
        ASSERT_EQ(side.pair.a->post(*transfer), Status::in_progress);
        fake().fail(failing, 0, CUDA_ERROR_OUT_OF_MEMORY);
        side.pair.until([] { return false; }, std::chrono::milliseconds(200));  // looks at its event
        fake().fail(failing, 0, 0);
        EXPECT_EQ(side.pair.a->poll(*transfer), Status::in_progress) << failing;
        gate.open();
        EXPECT_EQ(side.pair.wait(*transfer), Status::ok) << failing;
    }
    EXPECT_TRUE(target.bytes == source.bytes);
    side.pair.a->release(transfer);
}

TEST_P(StreamFailure, AStreamDestroyedByTheProgramStillRunsWhatIsOnIt) {
    StreamPair side(thread());
    ProgramStream stream(context());
    Buffer source(*side.pair.a, 4096, 7), target(*side.pair.b, 4096);
    Transfer* posted = side.prepare(Operation::write, source, target, stream);
    Transfer* later = side.prepare(Operation::write, source, target, stream);
    StreamGate gate(stream);
    ASSERT_EQ(side.pair.a->post(*posted), Status::in_progress);
    stream.destroy();
    gate.open();
    EXPECT_EQ(side.pair.wait(*posted), Status::ok);
    EXPECT_TRUE(target.bytes == source.bytes);
    LogLines log;
    EXPECT_EQ(side.pair.a->post(*later), Status::backend);
    EXPECT_TRUE(log.contain("CUDA_ERROR_INVALID_HANDLE"));
    side.pair.a->release(posted);
    side.pair.a->release(later);
}

/// The program takes the whole context away, with what is on its streams.
TEST_P(StreamFailure, AContextThatIsGoneEndsItsTransfers) {
    StreamPair side(thread());
    CUcontext own = nullptr, popped = nullptr;
    auto* const create =
        reinterpret_cast<CUresult (*)(CUcontext*, unsigned, CUdevice)>(symbol("cuCtxCreate_v2"));
    auto* const destroy = reinterpret_cast<CUresult (*)(CUcontext)>(symbol("cuCtxDestroy_v2"));
    ASSERT_EQ(create(&own, 0, 0), CUDA_SUCCESS);
    CUstream stream = nullptr;
    ASSERT_EQ(driver().stream_create(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(driver().ctx_pop_current(&popped), CUDA_SUCCESS);
    Buffer source(*side.pair.a, 4096, 7), target(*side.pair.b, 4096);
    const auto region = side.pair.publish(target);
    const LocalDescriptor from = source.local(0, 4096);
    const RemoteDescriptor to{target.address(), 4096, &region};
    Transfer* transfer = side.pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    side.streams->attach(*transfer, {reinterpret_cast<const char*>(&stream), sizeof(stream)});
    EXPECT_EQ(side.pair.run(*transfer), Status::ok);
    ASSERT_EQ(destroy(own), CUDA_SUCCESS);
    EXPECT_EQ(side.pair.a->post(*transfer), Status::backend);
    side.pair.a->release(transfer);
}

TEST_P(StreamFailure, ACapturedStreamIsRefusedWithTheRemedy) {
    StreamPair side(thread());
    const ProgramStream stream(context());
    const CaptureCalls capture;
    Buffer source(*side.pair.a, 4096, 7), target(*side.pair.b, 4096);
    Transfer* transfer = side.prepare(Operation::write, source, target, stream);
    const ContextGuard guard(*stream.context());
    ASSERT_EQ(capture.begin(stream.handle(), CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    {
        LogLines log;
        EXPECT_EQ(side.pair.a->post(*transfer), Status::not_supported);
        EXPECT_TRUE(log.contain("end the capture before the post"));
    }
    CUgraph graph = nullptr;
    ASSERT_EQ(capture.end(stream.handle(), &graph), CUDA_SUCCESS);
    EXPECT_EQ(side.pair.run(*transfer), Status::ok);
    EXPECT_EQ(capture.destroy(graph), CUDA_SUCCESS);
    side.pair.a->release(transfer);
}

TEST_P(StreamFailure, APeerThatWentAwayEndsTransfersInFlight) {
    StreamPair side(thread(), "both");
    const ProgramStream stream(context());
    Buffer source(*side.pair.a, 4096, 7), target(*side.pair.b, 4096);
    Transfer* waiting = side.prepare(Operation::write, source, target, stream);
    StreamGate gate(stream);
    ASSERT_EQ(side.pair.a->post(*waiting), Status::in_progress);
    side.pair.a->disconnect("beta");
    // The stream has not come to it, and need not.
    EXPECT_EQ(side.pair.wait(*waiting), Status::remote_disconnect);
    EXPECT_EQ(side.pair.a->post(*waiting), Status::remote_disconnect);
    gate.open();
    EXPECT_TRUE(side.until_idle(stream));
    side.pair.a->release(waiting);
}

/// The round before was stopped, and this one is not.
TEST_P(StreamFailure, AfterATimeoutATransferWaitsForItsStreamAgain) {
    StreamPair side({"tcp", 1, thread()}, {"tcp", 1, false}, {{"xfer_timeout_ms", "1500"}});
    const ProgramStream stream(context());
    Buffer source(*side.pair.a, 1 << 20, 1), target(*side.pair.b, 1 << 20);
    Transfer* transfer = side.prepare(Operation::write, source, target, stream);
    const auto behind_a_gate = [&](std::uint8_t value) {
        StreamGate gate(stream);
        stream.launch([&source, value] { std::fill(source.bytes.begin(), source.bytes.end(), value); });
        ASSERT_EQ(side.pair.a->post(*transfer), Status::in_progress);
        EXPECT_FALSE(side.pair.until([&] { return side.pair.a->poll(*transfer) != Status::in_progress; },
                                     std::chrono::milliseconds(20)))
            << "sent before its stream came to it";
        gate.open();
        EXPECT_EQ(side.pair.wait(*transfer), Status::ok);
        EXPECT_TRUE(std::all_of(target.bytes.begin(), target.bytes.end(),
                                [&](std::uint8_t byte) { return byte == value; }));
    };
    behind_a_gate(2);
    // The peer is not driven, so this one stays under way.
    Status status = side.pair.a->post(*transfer);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (status == Status::in_progress && std::chrono::steady_clock::now() < limit)
        status = side.pair.a->poll(*transfer);
    ASSERT_EQ(status, Status::canceled);
    for (const std::uint8_t value : {3, 4})
        behind_a_gate(value);
    EXPECT_TRUE(side.until_idle(stream));
    side.pair.a->release(transfer);
}

TEST_P(StreamFailure, ReleaseInFlightHoldsNoStreamUp) {
    for (const bool reached : {false, true}) {
        StreamPair side(thread(), "both");
        const ProgramStream stream(context());
        Buffer source(*side.pair.a, 1 << 20, 7), target(*side.pair.b, 1 << 20);
        Transfer* released = side.prepare(Operation::write, source, target, stream);
        Transfer* next = side.prepare(Operation::write, source, target, stream);
        StreamGate gate(stream);
        if (reached) gate.open();
        ASSERT_EQ(side.pair.a->post(*released), Status::in_progress);
        ASSERT_EQ(side.pair.a->post(*next), Status::in_progress);
        side.pair.a->release(released);
        gate.open();
        EXPECT_EQ(side.pair.wait(*next), Status::ok);
        EXPECT_TRUE(target.bytes == source.bytes);
        EXPECT_TRUE(side.until_idle(stream));
        side.pair.a->release(next);
    }
}

/// The number of what has failed would come after that of a later post, and stand for it.
TEST_P(StreamFailure, ARequestStaysWithTheThreadWhoseDefaultStreamHasNotComeToIt) {
    StreamPair side(thread(), "both");
    const ContextPtr held = context();
    const ContextGuard guard(*held);
    Buffer source(*side.pair.a, 4096, 7), target(*side.pair.b, 4096);
    Transfer* transfer = side.prepare_per_thread(source, target);
    const auto post_elsewhere = [&] {
        Status status = Status::ok;
        std::thread([&] { status = side.pair.a->post(*transfer); }).join();
        return status;
    };
    StreamGate gate(*held, reinterpret_cast<CUstream>(std::uintptr_t{2}));
    fake().fail("cuEventRecord", 1, CUDA_ERROR_INVALID_HANDLE);
    ASSERT_EQ(side.pair.a->post(*transfer), Status::backend);
    {
        LogLines log;
        EXPECT_EQ(post_elsewhere(), Status::not_allowed);
        EXPECT_TRUE(log.contain("post from that thread"));
    }
    ASSERT_EQ(side.pair.a->post(*transfer), Status::in_progress);
    gate.open();
    EXPECT_EQ(side.pair.wait(*transfer), Status::ok);
    EXPECT_TRUE(target.bytes == source.bytes);
    ASSERT_EQ(post_elsewhere(), Status::in_progress);
    EXPECT_EQ(side.pair.wait(*transfer), Status::ok);
    side.pair.a->release(transfer);
}

/// In the mode in which CUDA's captures are by default, other threads' calls count.
TEST_P(StreamFailure, ACaptureOnAnotherStreamIsNotDisturbed) {
    StreamPair side(thread());
    const ProgramStream stream(context()), captured(context());
    const CaptureCalls capture;
    Buffer source(*side.pair.a, 4096, 7), target(*side.pair.b, 4096);
    Transfer* transfer = side.prepare(Operation::write, source, target, stream);
    const ContextGuard guard(*stream.context());
    ASSERT_EQ(capture.begin(captured.handle(), CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    {
        StreamGate gate(stream);
        ASSERT_EQ(side.pair.a->post(*transfer), Status::in_progress);
        Transfer* other = side.prepare(Operation::read, source, target, stream);
        side.pair.until([] { return false; }, std::chrono::milliseconds(120));  // looks at its event
        side.pair.a->release(other);
    }
    EXPECT_EQ(side.pair.wait(*transfer), Status::ok);
    side.pair.a->release(transfer);
    CUgraph graph = nullptr;
    EXPECT_EQ(capture.end(captured.handle(), &graph), CUDA_SUCCESS);
    EXPECT_EQ(capture.destroy(graph), CUDA_SUCCESS);
}

/// The second one ends first, and the stream still waits for the first.
TEST_F(StreamNumbers, AStreamPassesNoWaitTooEarly) {
    StreamPair side(false);
    const ProgramStream stream(context());
    Buffer into(*side.pair.a, 200'000), from(*side.pair.b, 200'000, 7);
    Transfer* first = side.prepare(Operation::read, into, from, stream);
    Transfer* second = side.prepare(Operation::read, into, from, stream);
    StreamGate gate(stream);
    std::atomic<std::uint8_t> seen{0xFF};
    ASSERT_EQ(side.pair.a->post(*first), Status::in_progress);
    stream.launch([&] { seen = into.bytes.back(); });
    ASSERT_EQ(side.pair.a->post(*second), Status::in_progress);
    side.pair.a->release(second);
    gate.open();
    // The peer is not driven, so the first one goes on.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (std::chrono::steady_clock::now() < limit)
        ASSERT_EQ(side.pair.a->poll(*first), Status::in_progress);
    EXPECT_EQ(seen, 0xFF);
    EXPECT_EQ(side.pair.wait(*first), Status::ok);
    EXPECT_TRUE(side.until_idle(stream));
    EXPECT_EQ(seen, 7);
    side.pair.a->release(first);
}

INSTANTIATE_TEST_SUITE_P(Modes, StreamFailure, testing::Bool(), mode_name);

}  // namespace
}  // namespace railyard::test
