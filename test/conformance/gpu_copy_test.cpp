// From GPU to GPU on one host, past the fabric: what goes that way, and what the owner of the memory takes
// back. Two engines of one process; other processes are in test/fault.
#include "engine/transfer.h"
#include "fakecuda/nothing_left.h"
#include "gpu_side.h"
#include "stats_directory.h"

namespace railyard::test {
namespace {

constexpr Fabric past_fabric{"tcp", 1, false, true};

class GpuCopies : public testing::Test {
  protected:
    static constexpr std::size_t size = std::size_t{5} << 20;

    void SetUp() override { before_ = fake().statistics(); }
    void TearDown() override {
        fake().fail_nothing();
        fake().hold(false);
        fakecuda::expect_nothing_left(before_, fake().statistics());
        EXPECT_EQ(current_context(), nullptr);
    }

    struct Copied {
        explicit Copied(Operation operation, const Fabric& left = past_fabric,
                        const Fabric& right = past_fabric, int where = 0, const ParamMap& extra = {})
            : pair(left, right, extra), local(*pair.a, where, size), remote(*pair.b, 1, size) {
            region = pair.a->load_remote_memory("beta", pair.b->memory_metadata(*remote.region),
                                                remote.address, remote.length);
            prepare(operation, {{0, size}});
        }
        ~Copied() {
            pair.until([] { return false; }, std::chrono::milliseconds(50));  // what it heard by the way
            if (transfer) pair.a->release(transfer);
            if (local.region) local.drop(*pair.a);
            if (remote.region && pair.b) remote.drop(*pair.b);
        }
        Copied(const Copied&) = delete;
        Copied& operator=(const Copied&) = delete;
        void prepare(Operation operation, std::vector<std::pair<std::size_t, std::size_t>> pieces) {
            if (transfer) pair.a->release(transfer);
            std::vector<LocalDescriptor> here;
            std::vector<RemoteDescriptor> there;
            for (const auto& [at, length] : pieces) {
                here.push_back({local.address + at, length, &local.region});
                there.push_back({remote.address + at, length, &region});
            }
            transfer = pair.a->prepare(operation, here, there, "beta", std::nullopt);
        }
        [[nodiscard]] bool is_copied() const {
            return transfer->routes.front().rail->name() == "gpu0:copies";
        }
        EnginePair pair;
        Place local, remote;
        std::shared_ptr<RemoteRegion> region;
        Transfer* transfer = nullptr;
    };

  private:
    fakecuda_statistics before_{};
};

TEST_F(GpuCopies, NobodyHelpsAndTheBytesAreThere) {
    for (const Operation operation : {Operation::write, Operation::read}) {
        Copied copied(operation);
        ASSERT_TRUE(copied.is_copied());
        (operation == Operation::write ? copied.local : copied.remote).fill(3);
        EXPECT_EQ(run_alone(*copied.pair.a, *copied.transfer), Status::ok);
        EXPECT_TRUE(copied.local.content() == copied.remote.content());
        EXPECT_EQ(copied.pair.a->poll(*copied.transfer), Status::ok);
    }
}

/// Only the other engine of the process has registered it.
TEST_F(GpuCopies, PagesOfAnotherContextAreMoved) {
    constexpr std::size_t page = 4096, count = 16, length = 2 * page * count;
    const ForeignMemory pages(length, 11);
    EnginePair pair(past_fabric);
    Place local(*pair.a, 0, length);
    std::shared_ptr<Registration> theirs =
        pair.b->register_memory(pages.address, length, 0, MemoryType::device);
    const auto region =
        pair.a->load_remote_memory("beta", pair.b->memory_metadata(*theirs), pages.address, length);
    std::vector<LocalDescriptor> into;
    std::vector<RemoteDescriptor> from;
    for (std::size_t i = 0; i < count; ++i) {
        into.push_back({local.address + 2 * i * page, page, &local.region});
        from.push_back({pages.address + 2 * i * page, page, &region});
    }
    Transfer* transfer = pair.a->prepare(Operation::read, into, from, "beta", std::nullopt);
    ASSERT_EQ(transfer->routes.front().rail->name(), "gpu0:copies");
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    const std::vector<std::uint8_t> moved = local.content();
    for (std::size_t i = 0; i < length; ++i)
        ASSERT_EQ(moved[i], i / page % 2 == 0 ? pages.bytes[i] : 0) << i;
    pair.a->release(transfer);
    local.drop(*pair.a);
    pair.b->deregister_memory(theirs);
}

TEST_F(GpuCopies, StatisticsTellOfThem) {
    const StatsDirectory directory;
    ParamMap params = directory.params();
    params["keepalive_ms"] = "100";
    Copied copied(Operation::write, past_fabric, past_fabric, 0, params);
    ASSERT_EQ(run_alone(*copied.pair.a, *copied.transfer), Status::ok);
    const LiveReport report = directory.read_anew("alpha", [&] { copied.pair.a->progress(); });
    const auto rail = std::find_if(report.rails.begin(), report.rails.end(),
                                   [](const RailReport& one) { return one.name == "gpu0:copies"; });
    ASSERT_NE(rail, report.rails.end());
    EXPECT_EQ(rail->traffic->bytes_written, size);
}

/// The peer moves them, and they are none of its own.
TEST_F(GpuCopies, WhatAPeerIsAskedForIsTheAskersTransfer) {
    const StatsDirectory directory;
    ParamMap params = directory.params();
    params["vram_staging"] = "always";
    const Fabric fabric{"tcp", 1};
    Copied copied(Operation::write, fabric, fabric, host, params);
    ASSERT_FALSE(copied.is_copied());
    ASSERT_EQ(copied.pair.run(*copied.transfer), Status::ok);
    ASSERT_EQ(copied.pair.run(*copied.transfer), Status::ok);
    copied.prepare(Operation::read, {{0, size}});
    fake().hold(true);  // until it has been withdrawn
    ASSERT_EQ(copied.pair.a->post(*copied.transfer), Status::in_progress);
    copied.pair.until([] { return false; }, std::chrono::milliseconds(100));
    copied.pair.a->release(std::exchange(copied.transfer, nullptr));
    copied.pair.until([] { return false; }, std::chrono::milliseconds(100));
    fake().hold(false);
    copied.pair.until([] { return false; }, std::chrono::milliseconds(100));
    const LiveReport there = directory.read_anew("beta", copied.pair);
    EXPECT_GE(sum(there, &RailTrafficReport::bytes_read), 2 * size);
    const PeerTrafficReport theirs = traffic_with(there, "alpha");
    EXPECT_EQ(theirs.transfers_read + theirs.transfers_written, 0u);
    EXPECT_EQ(theirs.bytes_read + theirs.bytes_written, 0u);
    EXPECT_EQ(theirs.disconnected + theirs.canceled + theirs.failed, 0u);
    EXPECT_EQ(theirs.read_latency.count() + theirs.write_latency.count(), 0u);
    const PeerTrafficReport ours = traffic_with(directory.read_anew("alpha", copied.pair), "beta");
    EXPECT_EQ(ours.transfers_written, 2u);
    EXPECT_EQ(ours.bytes_written, 2 * size);
    EXPECT_EQ(ours.canceled, 1u);
}

/// Each call of the driver costs as much as a copy of megabytes.
TEST_F(GpuCopies, WhatAdjoinsIsOneCopy) {
    Copied copied(Operation::write);
    copied.local.fill(4);
    const auto only_copy = [&](unsigned copies) {
        fake().fail("cuMemcpyAsync", copies + 1, CUDA_ERROR_UNKNOWN);
        const Status status = run_alone(*copied.pair.a, *copied.transfer);
        fake().fail_nothing();
        return status;
    };
    EXPECT_EQ(only_copy(1), Status::ok);
    EXPECT_TRUE(copied.local.content() == copied.remote.content());
    std::vector<std::pair<std::size_t, std::size_t>> pieces;
    for (std::size_t i = 0; i < 60; ++i)
        pieces.emplace_back(i * 1000, 1000);
    pieces.emplace_back(70'000, 100);
    copied.prepare(Operation::write, pieces);
    copied.local.fill(5);
    EXPECT_EQ(only_copy(2), Status::ok);
    const std::vector<std::uint8_t> sent = copied.local.content(), got = copied.remote.content();
    EXPECT_TRUE(std::equal(sent.begin(), sent.begin() + 60'000, got.begin()));
    EXPECT_TRUE(std::equal(sent.begin() + 70'000, sent.begin() + 70'100, got.begin() + 70'000));
    EXPECT_FALSE(std::equal(sent.begin() + 60'000, sent.begin() + 70'000, got.begin() + 60'000));
    EXPECT_EQ(only_copy(1), Status::backend) << "there were fewer than two";
}

TEST_F(GpuCopies, WhatItsOwnerTookBackIsRefusedAndUntouched) {
    for (const Operation operation : {Operation::write, Operation::read}) {
        Copied copied(operation);
        copied.local.fill(3);
        ASSERT_EQ(run_alone(*copied.pair.a, *copied.transfer), Status::ok);
        copied.local.fill(4);
        const std::vector<std::uint8_t> mine = copied.local.content(), theirs = copied.remote.content();
        copied.remote.drop(*copied.pair.b);
        EXPECT_EQ(run_alone(*copied.pair.a, *copied.transfer), Status::backend);
        EXPECT_TRUE(copied.remote.content() == theirs);
        EXPECT_TRUE(copied.local.content() == mine);
        EXPECT_EQ(report_of(*copied.pair.a, "beta").on_host, 1u) << "the path is good";
    }
}

/// What was read may be anything by then.
TEST_F(GpuCopies, AReadOfWhatIsTakenBackMeanwhileIsNoSuccess) {
    Copied copied(Operation::read);
    ASSERT_EQ(run_alone(*copied.pair.a, *copied.transfer), Status::ok);
    fake().hold(true);
    ASSERT_EQ(copied.pair.a->post(*copied.transfer), Status::in_progress);
    copied.remote.drop(*copied.pair.b);
    fake().hold(false);
    EXPECT_EQ(copied.pair.wait(*copied.transfer), Status::backend);
}

TEST_F(GpuCopies, AnEngineThatEndsIsGoneForThem) {
    Copied copied(Operation::write, past_fabric, past_fabric, 0,
                  {{"connect_timeout_ms", "1000"}, {"peer_timeout_ms", "1000"}});
    ASSERT_EQ(run_alone(*copied.pair.a, *copied.transfer), Status::ok);
    copied.remote.drop(*copied.pair.b);
    copied.pair.b.reset();
    EXPECT_EQ(copied.pair.run(*copied.transfer), Status::remote_disconnect);
}

TEST_F(GpuCopies, EitherSideMaySayNo) {
    Fabric off = past_fabric;
    off.local_rail = false;
    for (const bool ours : {true, false}) {
        Copied copied(Operation::write, ours ? off : past_fabric, ours ? past_fabric : off);
        EXPECT_FALSE(copied.is_copied());
        copied.local.fill(3);
        EXPECT_EQ(copied.pair.run(*copied.transfer), Status::ok);
        EXPECT_TRUE(copied.local.content() == copied.remote.content());
    }
}

TEST_F(GpuCopies, WhatHasNoHandleGoesTheUsualWay) {
    fake().fail("cuIpcGetMemHandle", 0, CUDA_ERROR_NOT_SUPPORTED);
    Copied copied(Operation::write);
    EXPECT_FALSE(copied.is_copied());
    copied.local.fill(3);
    EXPECT_EQ(copied.pair.run(*copied.transfer), Status::ok);
    EXPECT_TRUE(copied.local.content() == copied.remote.content());
}

TEST_F(GpuCopies, HostMemoryGoesTheUsualWay) {
    Copied copied(Operation::write, past_fabric, past_fabric, host);
    EXPECT_FALSE(copied.is_copied());
    copied.local.fill(3);
    EXPECT_EQ(copied.pair.run(*copied.transfer), Status::ok);
    EXPECT_TRUE(copied.local.content() == copied.remote.content());
}

TEST_F(GpuCopies, AFailedCopyFailsTheTransferAlone) {
    Copied copied(Operation::write);
    fake().fail("cuMemcpyAsync", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(run_alone(*copied.pair.a, *copied.transfer), Status::backend);
    copied.local.fill(6);
    EXPECT_EQ(run_alone(*copied.pair.a, *copied.transfer), Status::ok);
    EXPECT_TRUE(copied.local.content() == copied.remote.content());
}

}  // namespace
}  // namespace railyard::test
