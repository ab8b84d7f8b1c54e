// Transfers of GPU memory whose peer is silent or forgetful, and those that are released before they have
// ended.
#include "gpu_transfers.h"

namespace railyard::test {
namespace {

/// Where the peer has to move the bytes itself, and does not.
TEST_P(GpuMemory, APeerThatNobodyDrivesIsGivenUpInTime) {
    if (zero_copy() || GetParam().fabric.progress_thread) GTEST_SKIP() << "the peer need not be driven";
    ParamMap impatient = GetParam().extra;
    impatient["connect_timeout_ms"] = "1500";  // longer than an introduction waits before it is repeated
    EnginePair pair(GetParam().fabric, GetParam().fabric, impatient);
    Place local(*pair.a, host, 100'000), remote(*pair.b, 0, 100'000);
    const auto region = pair.a->load_remote_memory("beta", pair.b->memory_metadata(*remote.region),
                                                   remote.address, remote.length);
    const LocalDescriptor here[] = {{local.address, local.length, &local.region}};
    const RemoteDescriptor there[] = {{remote.address, remote.length, &region}};
    Transfer* transfer = pair.a->prepare(Operation::write, here, there, "beta", std::nullopt);
    EXPECT_EQ(run_alone(*pair.a, *transfer), Status::remote_disconnect) << "it does not know us yet";
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    EXPECT_EQ(run_alone(*pair.a, *transfer), Status::remote_disconnect) << "it knows us";
    pair.a->release(transfer);
    const std::string metadata = pair.a->memory_metadata(*local.region);
    pair.a->deregister_memory(local.region);
    local.region = pair.a->register_memory(local.address, local.length, 0);
    EXPECT_NE(pair.a->memory_metadata(*local.region), metadata)
        << "the peer is late, with the keys of before";
    local.drop(*pair.a);
    remote.drop(*pair.b);
}

/// It knows of us only what we tell it, and may be told to forget that at any time.
TEST_P(GpuMemory, APeerThatHasForgottenUsIsToldAgain) {
    EnginePair pair(GetParam().fabric, GetParam().fabric, GetParam().extra);
    Place local(*pair.a, 0, 100'000), remote(*pair.b, 1, 100'000);
    const auto region = pair.a->load_remote_memory("beta", pair.b->memory_metadata(*remote.region),
                                                   remote.address, remote.length);
    const LocalDescriptor here[] = {{local.address, local.length, &local.region}};
    const RemoteDescriptor there[] = {{remote.address, remote.length, &region}};
    const std::string info = pair.a->connection_info();
    for (const Operation operation : {Operation::write, Operation::read}) {
        Transfer* transfer = pair.a->prepare(operation, here, there, "beta", "moved");
        for (int i = 0; i < 3; ++i) {
            pair.b->load_connection_info("alpha", info);
            EXPECT_EQ(pair.run(*transfer), Status::ok);
            EXPECT_EQ(pair.notifications(1).size(), 1u);
            pair.b->disconnect("alpha");
            EXPECT_EQ(pair.run(*transfer), Status::ok) << "it has forgotten us, " << i;
            EXPECT_EQ(pair.notifications(1).size(), 1u);
        }
        pair.a->release(transfer);
    }
    local.drop(*pair.a);
    remote.drop(*pair.b);
}

TEST_P(GpuMemory, ReleasedInFlightItEndsBeforeItsMemoryGoes) {
    EnginePair pair(GetParam().fabric, GetParam().fabric, GetParam().extra);
    constexpr std::size_t length = 8u << 20;
    for (const Way& way : ways()) {
        Place local(*pair.a, way.pairing.local, length), remote(*pair.b, way.pairing.remote, length);
        const auto region = pair.a->load_remote_memory("beta", pair.b->memory_metadata(*remote.region),
                                                       remote.address, remote.length);
        const LocalDescriptor here[] = {{local.address, length, &local.region}};
        const RemoteDescriptor there[] = {{remote.address, length, &region}};
        Transfer* transfer = pair.a->prepare(way.operation, here, there, "beta", std::nullopt);
        pair.a->post(*transfer);
        pair.a->release(transfer);
        // Both sides may still move some of it: the registrations wait for that.
        bool gone = false;
        ASSERT_TRUE(pair.until([&] {
            try {
                local.drop(*pair.a);
                gone = true;
            } catch (const Error&) {
                // The peer, which moves the bytes, is driven by this thread, too.
            }
            return gone;
        }));
        remote.drop(*pair.b);
    }
}

/// Where the peer has to move the bytes itself, and is only slow: staging buffers that were its when a
/// transfer was released are ours again once it has answered.
TEST_P(GpuMemory, BuffersOfReleasedTransfersComeBack) {
    if (zero_copy() || GetParam().fabric.progress_thread || GetParam().fabric.local_rail)
        GTEST_SKIP() << "the peer need not be driven";
    EnginePair pair(GetParam().fabric, GetParam().fabric, GetParam().extra);
    constexpr std::size_t length = 20u << 20;  // more than the buffers hold
    Place local(*pair.a, 0, length), remote(*pair.b, 1, length);
    remote.fill(5);
    const auto region = pair.a->load_remote_memory("beta", pair.b->memory_metadata(*remote.region),
                                                   remote.address, remote.length);
    const LocalDescriptor here[] = {{local.address, length, &local.region}};
    const RemoteDescriptor there[] = {{remote.address, length, &region}};
    Transfer* transfer = pair.a->prepare(Operation::read, here, there, "beta", std::nullopt);
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    local.fill(9);
    for (int i = 0; i < 4; ++i) {  // three hold all buffers
        ASSERT_EQ(pair.a->post(*transfer), Status::in_progress) << i;
        pair.a->release(transfer);  // ends without the peer's word
        pair.until([] { return false; }, std::chrono::milliseconds(100));
        transfer = pair.a->prepare(Operation::read, here, there, "beta", std::nullopt);
    }
    EXPECT_TRUE(local.content() != remote.content());
    EXPECT_EQ(pair.run(*transfer), Status::ok);
    EXPECT_TRUE(local.content() == remote.content());
    pair.a->release(transfer);
    local.drop(*pair.a);
    remote.drop(*pair.b);
}

}  // namespace
}  // namespace railyard::test
