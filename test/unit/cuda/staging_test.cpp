#include "cuda/staging.h"

#include <atomic>
#include <cstring>

#include "common/clock.h"
#include "on_fake_driver.h"

namespace railyard::cuda {
namespace {

using CudaStaging = OnFakeDriver;

TEST_F(CudaStaging, MovesPiecesBothWays) {
    fake().set_delay_us(100);
    const ContextPtr held = context();
    StagingRing ring(held, 2, 4096);
    const DeviceBuffer source(held, 1000), target(held, 1000);
    const std::vector<char> bytes = pattern(1000, 3);
    fill(source, bytes);
    const unsigned slot = ring.take();
    ASSERT_NE(slot, StagingRing::no_slot);
    EXPECT_EQ(ring.poll(slot), Status::not_posted);
    const StagedPiece out[] = {{source.address(), 0, 600}, {source.address() + 600, 3696, 400}};
    EXPECT_EQ(ring.copy_from_device(slot, out, 2), Status::in_progress);
    EXPECT_EQ(end_of([&] { return ring.poll(slot); }), Status::ok);
    EXPECT_EQ(std::memcmp(ring.data(slot), bytes.data(), 600), 0);
    EXPECT_EQ(std::memcmp(ring.data(slot) + 3696, bytes.data() + 600, 400), 0);
    const StagedPiece in[] = {{target.address() + 400, 0, 600}, {target.address(), 3696, 400}};
    EXPECT_EQ(ring.copy_to_device(slot, in, 2), Status::in_progress);
    EXPECT_EQ(end_of([&] { return ring.poll(slot); }), Status::ok);
    const std::vector<char> there = content(target, 1000);
    EXPECT_TRUE(std::equal(there.begin() + 400, there.end(), bytes.begin()));
    EXPECT_TRUE(std::equal(there.begin(), there.begin() + 400, bytes.begin() + 600));
    ring.give_back(slot);
    EXPECT_EQ(ring.last_error(), "");
}

/// Streams of one priority share the hardware's few queues, and one that waits holds up what is behind it.
TEST_F(CudaStaging, ItsStreamsComeFirstWhereTheDriverHasPriorities) {
    const auto prior_streams = [&](const Driver& with) {
        const fakecuda_statistics before = fake().statistics();
        const StagingRing ring(std::make_shared<PrimaryContext>(with, 0), 1, 4096);
        EXPECT_EQ(fake().statistics().streams, before.streams + 2);
        return fake().statistics().prior_streams - before.prior_streams;
    };
    EXPECT_EQ(prior_streams(driver()), 2u);
    fake().fail("cuCtxGetStreamPriorityRange", 0, CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(prior_streams(driver()), 0u);
    fake().fail_nothing();
    for (const char* missing :
         {"missing cuStreamCreateWithPriority", "missing cuCtxGetStreamPriorityRange"}) {
        fake().fail(missing, 0, CUDA_ERROR_NOT_FOUND);
        const DriverLookup old = find_driver();
        ASSERT_TRUE(old.driver) << missing;
        EXPECT_EQ(prior_streams(*old.driver), 0u) << missing;
        fake().fail_nothing();
    }
}

TEST_F(CudaStaging, SlotsGoRoundAndAreApart) {
    StagingRing ring(context(), 3, 4096);
    EXPECT_EQ(ring.memory().size(), 3U * 4096);
    const unsigned first = ring.take(), second = ring.take(), third = ring.take();
    EXPECT_EQ(ring.take(), StagingRing::no_slot);
    EXPECT_EQ(ring.data(second) - ring.data(first), 4096);
    EXPECT_EQ(ring.data(third) + 4096, ring.memory().data() + ring.memory().size());
    ring.give_back(second);
    ring.give_back(first);
    EXPECT_EQ(ring.take(), second);
    EXPECT_EQ(ring.take(), first);
    EXPECT_EQ(ring.take(), StagingRing::no_slot);
}

TEST_F(CudaStaging, PiecesStayInTheirSlot) {
    const ContextPtr held = context();
    StagingRing ring(held, 1, 4096);
    const DeviceBuffer memory(held, 8192);
    const unsigned slot = ring.take();
    for (const StagedPiece& piece :
         {StagedPiece{memory.address(), 1, 4096}, StagedPiece{memory.address(), 4097, 0},
          StagedPiece{memory.address(), 4096, ~std::uint64_t{0}}}) {
        EXPECT_EQ(ring.copy_from_device(slot, &piece, 1), Status::invalid_param);
        EXPECT_EQ(ring.poll(slot), Status::not_posted);
    }
    const StagedPiece whole{memory.address(), 0, 4096};
    EXPECT_EQ(ring.copy_from_device(slot, &whole, 1), Status::in_progress);
    EXPECT_EQ(end_of([&] { return ring.poll(slot); }), Status::ok);
}

TEST_F(CudaStaging, ARefusedCopyEndsWithTheDriversError) {
    const ContextPtr held = context();
    StagingRing ring(held, 1, 4096);
    const DeviceBuffer memory(held, 100);
    const unsigned slot = ring.take();
    const StagedPiece pieces[] = {{memory.address(), 0, 10}, {memory.address(), 10, 10}};
    for (const char* call : {"cuMemcpyAsync", "cuEventRecord", "cuCtxPushCurrent", "cuEventQuery"}) {
        fake().fail(call, call == std::string("cuMemcpyAsync") ? 2 : 1, CUDA_ERROR_INVALID_VALUE);
        EXPECT_EQ(ring.copy_from_device(slot, pieces, 2), Status::in_progress);
        EXPECT_EQ(end_of([&] { return ring.poll(slot); }), Status::backend) << call;
        EXPECT_CONTAINS(ring.last_error(), call);
        EXPECT_EQ(ring.poll(slot), Status::not_posted);
        fake().fail_nothing();
        EXPECT_EQ(ring.copy_from_device(slot, pieces, 2), Status::in_progress);
        EXPECT_EQ(end_of([&] { return ring.poll(slot); }), Status::ok) << call;
    }
}

/// The memory is the program's again with the last word: a copy that still ran would change it under it.
TEST_F(CudaStaging, AnErrorIsNoWordOfTheEnd) {
    const ContextPtr held = context();
    const DeviceBuffer source(held, 100), target(held, 100);
    CopyStream stream(held, 1);
    int first = 0;
    for (const char* call : {"cuEventRecord", "cuEventQuery", "cuCtxPushCurrent"}) {
        const std::vector<char> bytes = pattern(100, ++first);
        fill(source, bytes);
        fake().hold(true);
        const bool of_the_start = call == std::string("cuEventRecord");
        if (of_the_start) fake().fail(call, 1, CUDA_ERROR_OUT_OF_MEMORY);
        CopyStream::Group(stream, 0).add({target.address(), source.address(), 100});
        if (!of_the_start) fake().fail(call, 1, CUDA_ERROR_OUT_OF_MEMORY);
        for (int i = 0; i < 3; ++i)
            EXPECT_EQ(stream.poll(0), Status::in_progress) << call << " has failed and nothing has moved";
        EXPECT_CONTAINS(stream.last_error(), call);
        fake().hold(false);
        EXPECT_EQ(end_of([&] { return stream.poll(0); }), Status::backend) << call;
        EXPECT_EQ(content(target, 100), bytes) << call << ": it ended before its copies";
        fake().fail_nothing();
    }
}

TEST_F(CudaStaging, ADriverThatDoesNotSayIsGivenUp) {
    const ContextPtr held = context();
    const DeviceBuffer source(held, 100), target(held, 100);
    CopyStream stream(held, 2);
    for (const unsigned ticket : {0U, 1U})
        CopyStream::Group(stream, ticket).add({target.address(), source.address(), 100});
    fake().fail("cuEventQuery", 0, CUDA_ERROR_OUT_OF_MEMORY);
    const std::uint64_t begin = now_ns();
    EXPECT_EQ(end_of([&] { return stream.poll(0); }), Status::backend);
    const std::uint64_t took = now_ns() - begin;
    EXPECT_GE(took, unanswered_limit_ns);
    EXPECT_EQ(stream.poll(1), Status::backend) << "each has its turn one after the other";
    EXPECT_TRUE(stream.has_left(0) && stream.has_left(1)) << "nobody has said that they are over";
    fake().fail_nothing();
    EXPECT_EQ(
        end_of([&] { return stream.has_left(0) || stream.has_left(1) ? Status::in_progress : Status::ok; }),
        Status::ok);
    CopyStream::Group(stream, 0).add({target.address(), source.address(), 100});
    EXPECT_EQ(end_of([&] { return stream.poll(0); }), Status::ok);
    // It answers: what it says of the next one counts from the beginning again.
    CopyStream::Group(stream, 0).add({target.address(), source.address(), 100});
    fake().fail("cuEventQuery", 1, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(stream.poll(0), Status::in_progress);
    EXPECT_EQ(end_of([&] { return stream.poll(0); }), Status::backend);
}

/// Of a context that is gone nothing can come any more, and who asks again hears the same.
TEST_F(CudaStaging, TheContextsEndIsOneOfItsCopies) {
    const ContextPtr held = context();
    const DeviceBuffer source(held, 100), target(held, 100);
    CopyStream stream(held, 1);  // its end is awaited here: the fake one goes on
    for (const unsigned error :
         {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_ASSERT}) {
        CopyStream::Group(stream, 0).add({target.address(), source.address(), 100});
        fake().fail("cuEventQuery", 0, error);
        EXPECT_EQ(stream.poll(0), Status::backend);
        fake().fail_nothing();
    }
}

TEST_F(CudaStaging, AFaultOnTheGpuIsAnError) {
    const ContextPtr held = context();
    CopyStream stream(held, 2);
    const DeviceBuffer source(held, 100), target(held, 100);
    fake().fail("execute", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    CopyStream::Group(stream, 1).add({target.address(), source.address(), 100});
    EXPECT_EQ(end_of([&] { return stream.poll(1); }), Status::backend);
    EXPECT_CONTAINS(stream.last_error(), "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_F(CudaStaging, ConstructionThatFailsLeavesNothing) {
    const ContextPtr held = context();
    for (const char* call : {"cuMemHostAlloc", "cuMemHostGetDevicePointer", "cuStreamCreateWithPriority",
                             "cuEventCreate", "cuCtxPushCurrent"}) {
        for (const unsigned nth : {1U, 2U}) {
            fake().fail(call, nth, CUDA_ERROR_OUT_OF_MEMORY);
            const auto [status, message] = error_of([&] { StagingRing(held, 3, 4096); });
            if (nth == 1) {
                EXPECT_EQ(status, Status::backend) << call;
                EXPECT_CONTAINS(message, call);
                EXPECT_CONTAINS(message, "CUDA_ERROR_OUT_OF_MEMORY");
            }
            fake().fail_nothing();
            EXPECT_EQ(fake().statistics().streams, 0U);
            EXPECT_EQ(fake().statistics().events, 0U);
            EXPECT_EQ(fake().statistics().host_allocations, 0U);
        }
    }
}

TEST_F(CudaStaging, CopiesBetweenDevicesAndHosts) {
    const ContextPtr first = context(0), second = context(1);
    CopyStream stream(first, 1);
    const DeviceBuffer source(first, 5000), target(second, 5000);
    const std::vector<char> bytes = pattern(5000, 9);
    std::vector<char> host(5000);
    fill(source, bytes);
    CopyStream::Group(stream, 0).add({target.address(), source.address(), 5000});
    EXPECT_EQ(end_of([&] { return stream.poll(0); }), Status::ok);
    CopyStream::Group(stream, 0).add({reinterpret_cast<std::uint64_t>(host.data()), target.address(), 5000});
    EXPECT_EQ(end_of([&] { return stream.poll(0); }), Status::ok);
    EXPECT_EQ(host, bytes);
}

TEST_F(CudaStaging, DestroyedWithCopiesUnderWay) {
    fake().set_delay_us(2000);
    const ContextPtr held = context();
    const DeviceBuffer memory(held, 4096);
    fill(memory, pattern(4096, 1));
    for (int round = 0; round < 5; ++round) {
        StagingRing ring(held, 4, 4096);
        const StagedPiece piece{memory.address(), 0, 4096};
        for (int i = 0; i < 4; ++i)
            ring.copy_from_device(ring.take(), &piece, 1);
    }  // a copy that came after the memory was freed would fault
}

/// Each thread pushes its bytes through the ring and back, many times, and finds them again.
TEST_F(CudaStaging, ManyThreads) {
    fake().set_delay_us(30);
    const ContextPtr held = context();
    StagingRing ring(held, 3, 4096);
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int index = 0; index < 4; ++index) {
        threads.emplace_back([&, index] {
            const DeviceBuffer source(held, 2048), target(held, 2048);
            for (int round = 0; round < 25; ++round) {
                const std::vector<char> bytes = pattern(2048, 16 * index + round);
                fill(source, bytes);
                unsigned slot = StagingRing::no_slot;
                while ((slot = ring.take()) == StagingRing::no_slot)
                    std::this_thread::yield();
                const StagedPiece out{source.address(), 100, 2048}, in{target.address(), 100, 2048};
                ring.copy_from_device(slot, &out, 1);
                bool good = end_of([&] { return ring.poll(slot); }) == Status::ok;
                good = good && std::memcmp(ring.data(slot) + 100, bytes.data(), 2048) == 0;
                ring.copy_to_device(slot, &in, 1);
                good = good && end_of([&] { return ring.poll(slot); }) == Status::ok;
                ring.give_back(slot);
                if (good && content(target, 2048) == bytes) ++right;
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(right, 100);
}

}  // namespace
}  // namespace railyard::cuda
