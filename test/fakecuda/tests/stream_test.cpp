// Streams of the fake driver: order, values written and waited for, events, errors, capture.
#include <atomic>
#include <cstring>

#include "fake.h"

namespace {

using Streams = WithContext;

TEST_F(Streams, KeepTheirOrderUnderRandomPauses) {
    control().set_delay_us(300);
    const TestStream stream;
    const DeviceMemory memory(4096);
    const HostMemory host(4096);
    for (unsigned round = 1; round <= 20; ++round) {
        ASSERT_EQ(CU(cuMemsetD32Async)(memory.address, round, 1024, stream.handle), CUDA_SUCCESS);
        ASSERT_EQ(CU(cuMemcpyDtoHAsync)(host.pointer, memory.address, 4096, stream.handle), CUDA_SUCCESS);
    }
    EXPECT_EQ(CU(cuStreamSynchronize)(stream.handle), CUDA_SUCCESS);
    EXPECT_EQ(static_cast<unsigned*>(host.pointer)[1023], 20U);
}

TEST_F(Streams, DoNothingWhileTheyAreHeld) {
    const TestStream stream;
    const HostMemory seen(8);
    control().hold(true);
    ASSERT_EQ(CU(cuStreamWriteValue64)(stream.handle, seen.address, 1, 0), CUDA_SUCCESS);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // what is looked at is that nothing happens
    EXPECT_EQ(CU(cuStreamQuery)(stream.handle), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(seen.word(), 0U);
    control().hold(false);
    EXPECT_EQ(CU(cuStreamSynchronize)(stream.handle), CUDA_SUCCESS);
    EXPECT_EQ(seen.word(), 1U);
}

TEST_F(Streams, WriteAfterWhatWasBefore) {
    control().set_delay_us(200);
    const TestStream stream;
    const HostMemory trigger(8), data(1 << 16);
    const DeviceMemory memory(1 << 16);
    CU(cuMemsetD8Async)(memory.address, 9, 1 << 16, stream.handle);
    CU(cuMemcpyDtoHAsync)(data.pointer, memory.address, 1 << 16, stream.handle);
    ASSERT_EQ(CU(cuStreamWriteValue64)(stream.handle, trigger.address, 7, 0), CUDA_SUCCESS);
    ASSERT_TRUE(eventually([&] { return trigger.word() == 7; }));
    EXPECT_EQ(static_cast<char*>(data.pointer)[65535], 9);
}

TEST_F(Streams, WaitUntilAValueIsThere) {
    const TestStream stream;
    const HostMemory done(8), seen(8);
    ASSERT_EQ(CU(cuStreamWaitValue64)(stream.handle, done.address, 5, CU_STREAM_WAIT_VALUE_GEQ),
              CUDA_SUCCESS);
    ASSERT_EQ(CU(cuStreamWriteValue64)(stream.handle, seen.address, 1, 0), CUDA_SUCCESS);
    done.set_word(4);
    EXPECT_EQ(CU(cuStreamQuery)(stream.handle), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(seen.word(), 0U);
    done.set_word(6);
    EXPECT_EQ(CU(cuStreamSynchronize)(stream.handle), CUDA_SUCCESS);
    EXPECT_EQ(seen.word(), 1U);
    EXPECT_EQ(CU(cuStreamQuery)(stream.handle), CUDA_SUCCESS);
}

/// What counts is the difference, as a signed number of 32 bits: 3 is behind 0xfffffff0, and not the other
/// way round.
TEST_F(Streams, Wait32ComparesAcrossTheWrap) {
    const TestStream stream;
    const HostMemory done(8);
    auto ended = [&] { return CU(cuStreamQuery)(stream.handle) == CUDA_SUCCESS; };
    done.set_word(3);
    ASSERT_EQ(CU(cuStreamWaitValue32)(stream.handle, done.address, 0xfffffff0U, CU_STREAM_WAIT_VALUE_GEQ),
              CUDA_SUCCESS);
    EXPECT_TRUE(eventually(ended));
    done.set_word(0xfffffff0U);
    ASSERT_TRUE(eventually(ended));
    ASSERT_EQ(CU(cuStreamWaitValue32)(stream.handle, done.address, 3, CU_STREAM_WAIT_VALUE_GEQ),
              CUDA_SUCCESS);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(ended());
    done.set_word(3);
    EXPECT_TRUE(eventually(ended));
}

TEST_F(Streams, BatchedValues) {
    const TestStream stream;
    const HostMemory words(16);
    CUstreamBatchMemOpParams operations[2]{};
    operations[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    operations[0].writeValue.address = words.address;
    operations[0].writeValue.value64 = 11;
    operations[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    operations[1].waitValue.address = words.address;
    operations[1].waitValue.value64 = 11;
    operations[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    ASSERT_EQ(CU(cuStreamBatchMemOp)(stream.handle, 2, operations, 0), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuStreamSynchronize)(stream.handle), CUDA_SUCCESS);
    EXPECT_EQ(words.word(), 11U);
}

TEST_F(Streams, HostFunctionsAndEvents) {
    const TestStream first, second;
    const HostMemory gate(8);
    std::atomic<int> calls{0};
    CUevent event = nullptr;
    ASSERT_EQ(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuEventQuery)(event), CUDA_SUCCESS);  // never recorded
    CU(cuStreamWaitValue64)(first.handle, gate.address, 1, 0);
    ASSERT_EQ(CU(cuEventRecord)(event, first.handle), CUDA_SUCCESS);
    ASSERT_EQ(CU(cuStreamWaitEvent)(second.handle, event, 0), CUDA_SUCCESS);
    ASSERT_EQ(CU(cuLaunchHostFunc)(
                  second.handle, [](void* user) { ++*static_cast<std::atomic<int>*>(user); }, &calls),
              CUDA_SUCCESS);
    EXPECT_EQ(CU(cuEventQuery)(event), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(calls, 0);
    gate.set_word(1);
    EXPECT_EQ(CU(cuEventSynchronize)(event), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuStreamSynchronize)(second.handle), CUDA_SUCCESS);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(CU(cuEventDestroy)(event), CUDA_SUCCESS);
}

TEST_F(Streams, KnowTheirContextAndRefuseStrangers) {
    CUstream gone = nullptr;
    {
        const TestStream stream;
        gone = stream.handle;
        CUcontext of = nullptr;
        CUdevice device = -1;
        EXPECT_EQ(CU(cuStreamGetCtx)(stream.handle, &of), CUDA_SUCCESS);
        EXPECT_EQ(CU(cuStreamGetDevice)(stream.handle, &device), CUDA_SUCCESS);
        EXPECT_EQ(of, context);
        EXPECT_EQ(device, 0);
    }
    EXPECT_EQ(CU(cuStreamQuery)(gone), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(CU(cuStreamQuery)(reinterpret_cast<CUstream>(&gone)), CUDA_ERROR_INVALID_HANDLE);
    std::thread([] { EXPECT_EQ(CU(cuStreamQuery)(nullptr), CUDA_ERROR_INVALID_CONTEXT); }).join();
}

TEST_F(Streams, ADestroyedStreamStillDoesItsWork) {
    const HostMemory gate(8), seen(8);
    {
        const TestStream stream;
        CU(cuStreamWaitValue64)(stream.handle, gate.address, 1, 0);
        CU(cuStreamWriteValue64)(stream.handle, seen.address, 1, 0);
    }
    EXPECT_TRUE(eventually([] { return control().statistics().draining_streams == 1; }));
    gate.set_word(1);
    EXPECT_TRUE(eventually([&] { return seen.word() == 1 && control().statistics().draining_streams == 0; }));
}

TEST_F(Streams, AFailedOperationStopsItsStreamAlone) {
    const TestStream stream, other;
    const HostMemory word(8);
    CUevent event = nullptr;
    CU(cuEventCreate)(&event, 0);
    control().fail("execute", 2, CUDA_ERROR_LAUNCH_FAILED);
    for (std::uint64_t i = 1; i <= 3; ++i)
        CU(cuStreamWriteValue64)(stream.handle, word.address, i, 0);
    CU(cuEventRecord)(event, stream.handle);
    EXPECT_EQ(CU(cuStreamSynchronize)(stream.handle), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_EQ(CU(cuEventSynchronize)(event), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_EQ(CU(cuEventQuery)(event), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_EQ(word.word(), 1U);
    EXPECT_EQ(CU(cuStreamSynchronize)(other.handle), CUDA_SUCCESS);
    CU(cuEventDestroy)(event);
}

TEST_F(Streams, CaptureRecordsAndDoesNothing) {
    const TestStream stream;
    const HostMemory word(8);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    EXPECT_EQ(CU(cuStreamIsCapturing)(stream.handle, &status), CUDA_SUCCESS);
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
    ASSERT_EQ(CU(cuStreamBeginCapture)(stream.handle, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    cuuint64_t id = 0;
    EXPECT_EQ(CU(cuStreamGetCaptureInfo_v2)(stream.handle, &status, &id, nullptr, nullptr, nullptr),
              CUDA_SUCCESS);
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT_NE(id, 0U);
    EXPECT_EQ(CU(cuStreamWriteValue64)(stream.handle, word.address, 1, 0), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuStreamQuery)(stream.handle), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CUgraph graph = nullptr;
    ASSERT_EQ(CU(cuStreamEndCapture)(stream.handle, &graph), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuGraphDestroy)(graph), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuStreamSynchronize)(stream.handle), CUDA_SUCCESS);
    EXPECT_EQ(word.word(), 0U);
}

TEST_F(Streams, ManyThreadsManyStreams) {
    control().set_delay_us(50);
    const HostMemory words(8 * 4);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i) {
        threads.emplace_back([&, i] {
            CU(cuCtxSetCurrent)(context);
            const TestStream stream;
            const DeviceMemory memory(256);
            for (std::uint64_t n = 1; n <= 50; ++n) {
                CU(cuMemsetD8Async)(memory.address, static_cast<unsigned char>(n), 256, stream.handle);
                CU(cuStreamWriteValue64)(stream.handle, words.address + 8 * i, n, 0);
            }
            EXPECT_EQ(CU(cuStreamSynchronize)(stream.handle), CUDA_SUCCESS);
            EXPECT_EQ(*static_cast<unsigned char*>(control().alias(memory.address, 256)), 50);
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    for (unsigned i = 0; i < 4; ++i)
        EXPECT_EQ(static_cast<std::uint64_t*>(words.pointer)[i], 50U);
}

/// As a driver does that loads a module with the context's lock held.
TEST_F(Streams, LazyLoadingHoldsCallsOfOthersUpUntilTheStreamsHaveDrained) {
    const TestStream stream;
    const HostMemory word(sizeof(std::uint64_t));
    ASSERT_EQ(CU(cuStreamWaitValue64)(stream.handle, word.address, 1, CU_STREAM_WAIT_VALUE_GEQ),
              CUDA_SUCCESS);
    EXPECT_EQ(control().load_lazily(20), unsigned{CUDA_ERROR_NOT_READY});
    EXPECT_EQ(CU(cuStreamQuery)(stream.handle), CUDA_ERROR_NOT_READY) << "the lock is still held";
    const std::size_t before = control().statistics().held_up;
    std::atomic<unsigned> loaded{CUDA_ERROR_UNKNOWN}, asked{CUDA_ERROR_UNKNOWN};
    std::thread loading([&] {
        CU(cuCtxPushCurrent)(context);
        loaded = control().load_lazily(10'000);
    });
    std::thread asking([&] {
        CU(cuCtxPushCurrent)(context);
        while (control().statistics().held_up == before)
            asked = CU(cuStreamQuery)(stream.handle);
    });
    EXPECT_TRUE(eventually([&] { return control().statistics().held_up > before; }));
    EXPECT_EQ(loaded, unsigned{CUDA_ERROR_UNKNOWN});
    word.set_word(1);
    loading.join();
    asking.join();
    EXPECT_EQ(loaded, unsigned{CUDA_SUCCESS});
    EXPECT_EQ(asked, unsigned{CUDA_SUCCESS});
}

}  // namespace
