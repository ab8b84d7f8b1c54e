// Calls of the driver that fail, and memory that runs out, while GPU memory is moved: each of them in turn.
// Nothing that failed is told to have succeeded, everything ends, and afterwards all is as before.
#include <gtest/gtest.h>

#include <chrono>
#include <new>
#include <string>

#include "../shortage.h"
#include "gpu_transfers.h"
#include "manager/gpu_imports.h"
#include "outcome.h"
#include "stream/stream_transfers.h"
#include "unit/stream/program_stream.h"

namespace railyard::test {
namespace {

using std::chrono::milliseconds;

/// Until the end of the transfer, but for no longer.
constexpr milliseconds shortage_lasts(15);
/// A transfer that waits for what was lost would take peer_timeout_ms.
constexpr milliseconds soon(2000);
constexpr std::size_t length = 70'000;

/// What fails, and whether all that follows does, too.
struct Failing {
    bool calls = true;  ///< of the driver; else allocations
    bool lasting = false;
};
constexpr Failing all_failing[] = {{true, false}, {true, true}, {false, false}, {false, true}};

std::string describe(Failing failing) {
    return std::string(failing.lasting ? "from one on, each " : "one ") +
           (failing.calls ? "call of the driver" : "allocation") + " fails";
}

class GpuShortage : public GpuMemory {
  protected:
    static void SetUpTestSuite() { watch_for_shortages(); }

    static void start(Failing failing, long at) {
        if (failing.calls)
            fake().fail_any(static_cast<unsigned>(at + 1), CUDA_ERROR_OUT_OF_MEMORY, failing.lasting);
        else
            arm(at, failing.lasting);
    }
    /// Whether anything has failed.
    static bool stop(Failing failing) {
        fake().fail_nothing();
        disarm();
        return failing.calls ? fake().any_failed() != nullptr : shortage.left < 0;
    }
    static std::string place_of(Failing failing) {
        return failing.calls ? std::string("failed: ") + fake().any_failed() : place();
    }

    struct Sides {
        explicit Sides(Pairing pairing) : ours(pairing.local, length), theirs(pairing.remote, length) {}
        HostOrGpuMemory ours, theirs;
    };

    /// `at` < 0: nothing fails. `streams`: the transfer takes its place on a stream.
    Outcome transfer_once(EnginePair& pair, Sides& sides, Operation operation, Failing failing = {},
                          long at = -1, StreamTransfers* streams = nullptr,
                          const ProgramStream* stream = nullptr) {
        const std::string text = std::to_string(++rounds_);
        HostOrGpuMemory& from = operation == Operation::write ? sides.ours : sides.theirs;
        HostOrGpuMemory& to = operation == Operation::write ? sides.theirs : sides.ours;
        from.fill(rounds_);
        std::shared_ptr<Registration> our_region, their_region;
        std::shared_ptr<RemoteRegion> remote;
        Transfer* transfer = nullptr;
        const auto prepare = [&] {
            our_region = sides.ours.register_in(*pair.a);
            their_region = sides.theirs.register_in(*pair.b);
            remote = pair.a->load_remote_memory("beta", pair.b->memory_metadata(*their_region),
                                                sides.theirs.address, length);
            const LocalDescriptor here{sides.ours.address, length, &our_region};
            const RemoteDescriptor there{sides.theirs.address, length, &remote};
            transfer = pair.a->prepare(operation, {&here, 1}, {&there, 1}, "beta", text);
            if (streams) streams->attach(*transfer, stream->param());
            return transfer;
        };
        if (at >= 0) start(failing, at);
        Outcome outcome =
            carry_out(pair, text, shortage_lasts, transfer, prepare, [&] { failed_ = stop(failing); });
        outcome.moved = from.content() == to.content();
        if (transfer) pair.a->release(transfer);
        if (our_region) pair.a->deregister_memory(our_region);
        if (their_region) pair.b->deregister_memory(their_region);
        return outcome;
    }

    /// Each kind of failure at each place until nothing is left that could fail.
    template <class Round>
    void sweep(Round&& round) {
        for (int i = 0; i < 3; ++i)
            ASSERT_EQ(round(Failing{}, -1), all_well);
        for (const Failing failing : all_failing) {
            SCOPED_TRACE(describe(failing));
            const long stride = failing.lasting && !failing.calls ? 3 : 1;
            const long tried = fail_in_turn(
                stride, soon, [&](long at) { return round(failing, at); }, [&] { return failed_; },
                [&] { return place_of(failing); }, [&] { return round(Failing{}, -1); });
            EXPECT_GT(tried, failing.calls ? 5 : 20) << "hardly anything was tried";
        }
    }

    unsigned rounds_ = 0;
    bool failed_ = false;
};

/// It is made, or not; then nothing of it stays.
TEST_P(GpuShortage, WhileAnEngineIsMade) {
    long at = 0, refused = 0;
    for (int without = 0; without < 3; ++at) {
        ASSERT_LT(at, 20'000) << "it never ends";
        const fakecuda_statistics before = fake().statistics();
        start({}, at);
        try {
            make_engine("engine", GetParam().fabric, GetParam().extra);
        } catch (const Error&) {
            ++refused;
        }
        without = stop({}) ? 0 : without + 1;
        ASSERT_NO_FATAL_FAILURE(fakecuda::expect_nothing_left(before, fake().statistics()));
    }
    EXPECT_GT(at, 5) << "hardly anything was tried; " << refused << " were refused";
    EnginePair pair(GetParam().fabric, GetParam().fabric, GetParam().extra);
    Sides sides({0, 1});
    EXPECT_EQ(transfer_once(pair, sides, Operation::write), all_well);
}

TEST_P(GpuShortage, WhileMemoryIsMoved) {
    EnginePair pair(GetParam().fabric, GetParam().fabric, GetParam().extra);
    for (const Way& way : ways()) {
        Sides sides(way.pairing);
        SCOPED_TRACE(describe(way));
        ASSERT_NO_FATAL_FAILURE(sweep([&](Failing failing, long at) {
            return transfer_once(pair, sides, way.operation, failing, at);
        }));
    }
}

TEST_P(GpuShortage, WhileATransferHasItsPlaceOnAStream) {
    EnginePair pair(GetParam().fabric, GetParam().fabric, GetParam().extra);
    StreamTransfers streams(*pair.a);
    {
        const ProgramStream stream(std::make_shared<cuda::PrimaryContext>(cuda_driver(), 0));
        for (const Way way : {Way{Operation::write, {0, 1}}, Way{Operation::read, {0, host}}}) {
            Sides sides(way.pairing);
            SCOPED_TRACE(describe(way));
            ASSERT_NO_FATAL_FAILURE(sweep([&](Failing failing, long at) {
                const Outcome outcome =
                    transfer_once(pair, sides, way.operation, failing, at, &streams, &stream);
                EXPECT_TRUE(pair.until([&] { return stream.idle(); }, soon)) << "the stream stands still";
                return outcome;
            }));
        }
    }
    streams.close();
    pair.a.reset();
}

/// Of another process, as far as this one knows.
TEST(GpuImportsShortage, WhatCouldNotBeOpenedIsNotThereTheNextTime) {
    watch_for_shortages();
    const auto context = std::make_shared<cuda::PrimaryContext>(cuda_driver(), 0);
    const cuda::SharedAllocation nobodys{{}, 4096, 4096, 1};
    bool failed = true;
    for (long at = 0; failed; ++at) {
        ASSERT_LT(at, 200) << "it never ends";
        GpuImports imports;
        std::string why;
        arm(at, false);
        try {
            EXPECT_EQ(imports.open(context, nobodys, why), nullptr);
        } catch (const std::bad_alloc&) {
        }
        failed = shortage.left < 0;
        disarm();
        EXPECT_EQ(imports.open(context, nobodys, why), nullptr) << place();
    }
}

/// Of what the driver would have opened, which it does not for the process that has made it.
CUdeviceptr opened_address = 0;
int opened = 0;
CUresult open_it(CUdeviceptr* address, CUipcMemHandle, unsigned) {
    *address = opened_address;
    ++opened;
    return CUDA_SUCCESS;
}
CUresult close_it(CUdeviceptr) {
    --opened;
    return CUDA_SUCCESS;
}

TEST(GpuImportsShortage, WhatIsShorterThanItSaysIsClosedWithoutMemoryForTheReason) {
    watch_for_shortages();
    cuda::Driver driver = cuda_driver();
    driver.ipc_open_mem_handle = open_it;
    driver.ipc_close_mem_handle = close_it;
    const auto context = std::make_shared<cuda::PrimaryContext>(driver, 0);
    const HostOrGpuMemory buffer(0, 4096);
    opened_address = buffer.address;
    const cuda::SharedAllocation shared{{}, buffer.address, 1 << 30, 1};
    bool failed = true;
    for (long at = 0; failed; ++at) {
        ASSERT_LT(at, 200) << "it never ends";
        std::uint64_t address = 0;
        arm(at, false);
        try {
            EXPECT_NE(cuda::open_shared(*context, shared, address), "");
        } catch (const std::bad_alloc&) {
        }
        failed = shortage.left < 0;
        disarm();
        EXPECT_EQ(opened, 0) << place();
    }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, GpuShortage, testing::ValuesIn(gpu_fabrics()), gpu_fabric_name);

}  // namespace
}  // namespace railyard::test
