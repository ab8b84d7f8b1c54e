#include "rail/device_copy_rail.h"

#include <cuda.h>

#include <atomic>
#include <thread>

#include "staged_transfer.h"

namespace railyard::test {
namespace {

constexpr int host = -1;

/// Memory of a GPU, or of the host.
class Place {
  public:
    Place(const ContextPtr& context, std::size_t bytes)
        : bytes_(bytes),
          device_(context ? std::make_unique<DeviceBuffer>(context, bytes) : nullptr),
          host_(context ? 0 : bytes) {}
    [[nodiscard]] std::uint64_t address() const {
        return device_ ? device_->address() : reinterpret_cast<std::uint64_t>(host_.data());
    }
    void set(const std::vector<std::byte>& bytes) {
        if (device_) {
            EXPECT_EQ(fake().gpu_write(device_->address(), bytes.data(), bytes.size()), 0U);
        } else {
            host_ = bytes;
        }
    }
    [[nodiscard]] std::vector<std::byte> get() const {
        return device_ ? content(device_->address(), bytes_) : host_;
    }

  private:
    std::size_t bytes_;
    std::unique_ptr<DeviceBuffer> device_;
    std::vector<std::byte> host_;
};

/// `chunks` chunks of `length` bytes between two places, from behind, so that each is a copy of its own.
struct SelfTransfer {
    SelfTransfer(Work::Kind kind, const ContextPtr& local_gpu, const ContextPtr& remote_gpu,
                 std::size_t chunks, std::uint32_t length, unsigned seed = 1)
        : local(local_gpu, chunks * length), remote(remote_gpu, chunks * length) {
        work.kind = kind;
        for (std::size_t i = 0; i < chunks; ++i)
            work.chunks.push_back({local.address() + (chunks - 1 - i) * length,
                                   remote.address() + (chunks - 1 - i) * length, length, 0, 0});
        work.lanes.emplace_back(work, 0, static_cast<std::uint32_t>(chunks));
        fill(seed);
    }
    [[nodiscard]] Place& source() { return work.kind == Work::Kind::read ? remote : local; }
    [[nodiscard]] Place& target() { return work.kind == Work::Kind::read ? local : remote; }
    void fill(unsigned seed) {
        expected = pattern(local.get().size(), seed);
        source().set(expected);
        target().set(std::vector<std::byte>(expected.size()));
    }
    [[nodiscard]] bool arrived() { return target().get() == expected; }
    void post(Rail& rail) { start_round(rail, work, submission, route); }
    [[nodiscard]] Status end(Rail& rail) {
        const bool ended = drive([&] { return work.done(); }, [&] { rail.progress(); });
        return ended ? work.status() : Status::in_progress;
    }

    Place local, remote;
    std::vector<std::byte> expected;
    Work work;
    Route route;
    Submission submission;
};

class DeviceCopies : public OnFakeDriver {
  protected:
    void SetUp() override {
        OnFakeDriver::SetUp();
        first = context(0);
        second = context(1);
        rail = std::make_unique<DeviceCopyRail>("copies");
    }
    void TearDown() override {
        rail.reset();
        first.reset();
        second.reset();
        OnFakeDriver::TearDown();
    }
    [[nodiscard]] ContextPtr gpu(int ordinal) const {
        return ordinal == host ? nullptr : ordinal == 0 ? first : second;
    }
    ContextPtr first, second;
    std::unique_ptr<DeviceCopyRail> rail;
};

constexpr Work::Kind kinds[] = {Work::Kind::write, Work::Kind::read};

TEST_F(DeviceCopies, BetweenAllPlaces) {
    rail->open(first, 2);
    for (const Work::Kind kind : kinds) {
        for (const auto& [local, remote] :
             {std::pair{0, 0}, std::pair{0, 1}, std::pair{1, 0}, std::pair{0, host}, std::pair{host, 1}}) {
            SelfTransfer moved(kind, gpu(local), gpu(remote), 10, 1001);
            moved.post(*rail);
            EXPECT_EQ(moved.end(*rail), Status::ok);
            EXPECT_TRUE(moved.arrived()) << local << ' ' << remote;
        }
    }
    EXPECT_TRUE(drive([&] { return !rail->has_work(); }, [&] { rail->progress(); }));
}

TEST_F(DeviceCopies, AnyNumberOfChunksAndStreams) {
    for (const unsigned streams : {1U, 2U, 5U}) {
        rail = std::make_unique<DeviceCopyRail>("copies");
        rail->open(first, streams);
        for (const std::size_t chunks : {1U, 63U, 64U, 65U, 5000U}) {
            SelfTransfer moved(Work::Kind::write, first, second, chunks, 17);
            for (unsigned round = 0; round < 2; ++round) {
                moved.fill(round);
                moved.post(*rail);
                EXPECT_EQ(moved.end(*rail), Status::ok);
                EXPECT_TRUE(moved.arrived()) << chunks;
            }
        }
    }
}

/// The driver refuses a copy that goes from one allocation into the next: whichever side has two.
TEST_F(DeviceCopies, RegionsThatAdjoinAreCopiedEachByItself) {
    constexpr std::uint32_t half = 4096;
    rail->open(first, 1);
    const AdjoiningBuffers two(first, half);
    const DeviceBuffer one(first, 2 * half);
    const auto put = [&](std::uint64_t address, const std::byte* bytes, std::size_t length) {
        EXPECT_EQ(fake().gpu_write(address, bytes, length), 0U);
    };
    for (const Work::Kind kind : kinds) {
        for (const bool two_are_local : {true, false}) {
            const std::uint64_t apart[] = {two.first->address(), two.second->address()};
            const std::uint64_t whole[] = {one.address(), one.address() + half};
            Work work;
            work.kind = kind;
            for (const std::uint32_t i : {0U, 1U}) {
                work.chunks.push_back(two_are_local ? Chunk{apart[i], whole[i], half, i, 0}
                                                    : Chunk{whole[i], apart[i], half, 0, i});
            }
            work.lanes.emplace_back(work, 0, 2);
            const bool from_two = two_are_local == (kind == Work::Kind::write);
            const std::vector<std::byte> sent = pattern(2 * half, from_two ? 1 : 2);
            for (const std::uint32_t i : {0U, 1U})
                put(from_two ? apart[i] : whole[i], sent.data() + i * half, half);
            const Route route;
            Submission submission;
            start_round(*rail, work, submission, route);
            ASSERT_TRUE(drive([&] { return work.done(); }, [&] { rail->progress(); }));
            ASSERT_EQ(work.status(), Status::ok) << two_are_local;
            for (const std::uint32_t i : {0U, 1U}) {
                EXPECT_EQ(std::memcmp(content(from_two ? whole[i] : apart[i], half).data(),
                                      sent.data() + i * half, half),
                          0);
            }
        }
    }
}

/// A long one does not keep a short one, which came later, waiting for all of it.
TEST_F(DeviceCopies, SubmissionsTakeTurnsByGroup) {
    rail->open(first, 2);
    fake().set_delay_us(200);
    SelfTransfer large(Work::Kind::write, first, first, 64 * 60, 16),
        small(Work::Kind::read, first, first, 64 * 3, 16);
    large.post(*rail);
    small.post(*rail);
    EXPECT_EQ(small.end(*rail), Status::ok);
    EXPECT_FALSE(large.work.done());
    EXPECT_EQ(large.end(*rail), Status::ok);
    EXPECT_TRUE(small.arrived());
    EXPECT_TRUE(large.arrived());
}

TEST_F(DeviceCopies, ACopyThatFailsIsABackendErrorAndTheNextTransferWorks) {
    rail->open(first, 2);
    SelfTransfer moved(Work::Kind::write, first, second, 500, 100);
    for (const char* call : {"cuMemcpyAsync", "cuEventRecord", "cuEventQuery", "cuCtxPushCurrent"}) {
        for (const unsigned nth : {1U, 3U}) {
            fake().fail(call, nth, CUDA_ERROR_INVALID_VALUE);
            moved.post(*rail);
            EXPECT_EQ(moved.end(*rail), Status::backend) << call << ' ' << nth;
            fake().fail_nothing();
            moved.fill(nth);
            moved.post(*rail);
            EXPECT_EQ(moved.end(*rail), Status::ok) << call << ' ' << nth;
            EXPECT_TRUE(moved.arrived());
        }
    }
}

TEST_F(DeviceCopies, AStoppedTransferStartsNoMore) {
    rail->open(first, 1);
    fake().set_delay_us(100);
    SelfTransfer moved(Work::Kind::write, first, first, 64 * 100, 16);
    moved.post(*rail);
    moved.work.stop(Status::canceled);
    EXPECT_EQ(moved.end(*rail), Status::canceled);
    const std::vector<std::byte> there = moved.target().get();
    EXPECT_EQ(there.front(), std::byte{0});
    SelfTransfer next(Work::Kind::write, first, first, 100, 16);
    next.post(*rail);
    EXPECT_EQ(next.end(*rail), Status::ok);
    EXPECT_TRUE(next.arrived());
    EXPECT_EQ(moved.target().get(), there);
}

TEST_F(DeviceCopies, OpensOnceAndFailsWithTheReason) {
    EXPECT_EQ(rail->progress(), Rail::Progress::idle);
    fake().fail("cuStreamCreateWithPriority", 2, CUDA_ERROR_OUT_OF_MEMORY);
    const auto [status, message] = cuda::error_of([&] { rail->open(first, 3); });
    EXPECT_EQ(status, Status::backend);
    EXPECT_CONTAINS(message, "cuStreamCreateWithPriority");
    EXPECT_FALSE(rail->is_open());
    EXPECT_EQ(fake().statistics().streams, 0U);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] { rail->open(first, 3); });
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_TRUE(rail->is_open());
    EXPECT_EQ(fake().statistics().streams, 3U);
}

TEST_F(DeviceCopies, DestroyedWithCopiesUnderWay) {
    for (int round = 0; round < 5; ++round) {
        rail = std::make_unique<DeviceCopyRail>("copies");
        rail->open(first, 3);
        fake().set_delay_us(2000);
        SelfTransfer moved(kinds[round % 2], first, second, 64 * 20, 16);
        moved.post(*rail);
        rail.reset();
    }  // a copy that came after the memory was freed would fault
}

TEST_F(DeviceCopies, AnIdleRailDoesNotCallTheDriver) {
    rail->open(first, 4);
    SelfTransfer moved(Work::Kind::write, first, first, 10, 10);
    moved.post(*rail);
    EXPECT_EQ(moved.end(*rail), Status::ok);
    rail->progress();
    EXPECT_FALSE(rail->has_work());
    EXPECT_TRUE(rail->prepare_wait());
    const std::size_t calls = fake().statistics().calls;
    for (int i = 0; i < 1000; ++i)
        EXPECT_EQ(rail->progress(), Rail::Progress::idle);
    EXPECT_EQ(fake().statistics().calls, calls);
}

TEST_F(DeviceCopies, ManyThreads) {
    rail->open(first, 3);
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i) {
        threads.emplace_back([&, i] {
            SelfTransfer moved(kinds[i % 2], first, i < 2 ? second : nullptr, 200, 100 + i, i);
            for (unsigned round = 0; round < 25; ++round) {
                moved.fill(100 * i + round);
                moved.post(*rail);
                if (moved.end(*rail) == Status::ok && moved.arrived()) ++right;
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(right, 100);
}

}  // namespace
}  // namespace railyard::test
