// Transfers of GPU memory on the fake driver, whose device addresses fault when a CPU touches them: without a
// copy where the NICs reach it (simulated EFA), through staging buffers elsewhere.
#include "gpu_transfers.h"

namespace railyard::test {
namespace {

TEST_P(GpuMemory, EveryPairingMovesExactlyTheBytesAsked) {
    EnginePair pair(GetParam().fabric, GetParam().fabric, GetParam().extra);
    for (const Way& way : ways()) {
        for (const std::size_t length : {std::size_t{1}, std::size_t{4097}, std::size_t{3'000'000}}) {
            SCOPED_TRACE(describe(way) + ", " + std::to_string(length) + " bytes");
            Place local(*pair.a, way.pairing.local, length + 100),
                remote(*pair.b, way.pairing.remote, length + 100);
            const bool write = way.operation == Operation::write;
            EXPECT_EQ(local.region->staged, way.pairing.local != host && !zero_copy());
            (write ? local : remote).fill(static_cast<std::uint32_t>(length));
            const auto region = pair.a->load_remote_memory("beta", pair.b->memory_metadata(*remote.region),
                                                           remote.address, remote.length);
            const LocalDescriptor here[] = {{local.address + 33, length, &local.region}};
            const RemoteDescriptor there[] = {{remote.address + 7, length, &region}};
            Transfer* transfer = pair.a->prepare(way.operation, here, there, "beta", std::nullopt);
            ASSERT_EQ(pair.run(*transfer), Status::ok);
            if (write) {
                expect_moved(local, remote, 33, 7, length);
            } else {
                expect_moved(remote, local, 7, 33, length);
            }
            pair.a->release(transfer);
            local.drop(*pair.a);
            remote.drop(*pair.b);
        }
    }
}

TEST_P(GpuMemory, OneListMixesEveryKindOfMemoryAndManyPieces) {
    EnginePair pair(GetParam().fabric, GetParam().fabric, GetParam().extra);
    constexpr std::size_t pieces = 700, size = 1111;
    for (const Operation operation : {Operation::write, Operation::read}) {
        std::vector<std::unique_ptr<Place>> locals, remotes;
        std::vector<std::shared_ptr<RemoteRegion>> regions;
        for (const int where : {host, 0, 1}) {
            locals.push_back(std::make_unique<Place>(*pair.a, where, pieces * size));
            remotes.push_back(std::make_unique<Place>(*pair.b, where, pieces * size));
            (operation == Operation::write ? locals : remotes)
                .back()
                ->fill(static_cast<std::uint32_t>(where + 5));
            regions.push_back(pair.a->load_remote_memory("beta",
                                                         pair.b->memory_metadata(*remotes.back()->region),
                                                         remotes.back()->address, remotes.back()->length));
        }
        std::vector<LocalDescriptor> here;
        std::vector<RemoteDescriptor> there;
        for (std::size_t i = 0; i < pieces; ++i) {
            const Place& local = *locals[i % 3];
            const std::size_t other = i / 3 % 3;
            here.push_back({local.address + i * size, size, &local.region});
            there.push_back({remotes[other]->address + i * size, size, &regions[other]});
        }
        Transfer* transfer = pair.a->prepare(operation, here, there, "beta", std::nullopt);
        for (int round = 0; round < 2; ++round)
            ASSERT_EQ(pair.run(*transfer), Status::ok);
        std::vector<std::vector<std::uint8_t>> sent, got;
        for (std::size_t k = 0; k < 3; ++k) {
            sent.push_back((operation == Operation::write ? locals : remotes)[k]->content());
            got.push_back((operation == Operation::write ? remotes : locals)[k]->content());
        }
        for (std::size_t i = 0; i < pieces; ++i) {
            const std::size_t l = i % 3, r = i / 3 % 3;
            const auto& from = sent[operation == Operation::write ? l : r];
            const auto& to = got[operation == Operation::write ? r : l];
            ASSERT_TRUE(std::equal(from.begin() + static_cast<std::ptrdiff_t>(i * size),
                                   from.begin() + static_cast<std::ptrdiff_t>((i + 1) * size),
                                   to.begin() + static_cast<std::ptrdiff_t>(i * size)))
                << "piece " << i;
        }
        pair.a->release(transfer);
        for (auto& place : locals)
            place->drop(*pair.a);
        for (auto& place : remotes)
            place->drop(*pair.b);
    }
}

/// More of a peer's GPU memory than one request for it may name.
TEST_P(GpuMemory, AWriteToVeryManyRegionsIsSeenOnTheGpu) {
    EnginePair pair(GetParam().fabric, GetParam().fabric, GetParam().extra);
    constexpr std::size_t count = 513, size = 256;
    Place source(*pair.a, host, count * size);
    source.fill(9);
    const HostOrGpuMemory target(0, count * size);
    std::vector<std::shared_ptr<Registration>> owned;
    std::vector<std::shared_ptr<RemoteRegion>> regions(count);
    std::vector<LocalDescriptor> here;
    std::vector<RemoteDescriptor> there;
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t address = target.address + i * size;
        owned.push_back(pair.b->register_memory(address, size, 0, MemoryType::device));
        regions[i] =
            pair.a->load_remote_memory("beta", pair.b->memory_metadata(*owned.back()), address, size);
        here.push_back({source.address + i * size, size, &source.region});
        there.push_back({address, size, &regions[i]});
    }
    Transfer* write = pair.a->prepare(Operation::write, here, there, "beta", "look");
    for (std::uint32_t round = 1; round < 3; ++round) {
        source.fill(round);
        ASSERT_EQ(pair.run(*write), Status::ok);
        std::vector<std::uint8_t> seen(count * size);
        EXPECT_EQ(fake().gpu_read(target.address, seen.data(), seen.size()), 0u);
        EXPECT_TRUE(seen == source.content()) << "round " << round;
        EXPECT_EQ(pair.notifications(1).size(), 1u);
    }
    pair.a->release(write);
    for (const auto& region : owned)
        pair.b->deregister_memory(region);
    source.drop(*pair.a);
}

/// With FAKECUDA_LATE the GPU sees what NICs write after a flush only.
TEST_P(GpuMemory, WhoeverHearsOfTheEndSeesTheDataOnTheGpu) {
    EnginePair pair(GetParam().fabric, GetParam().fabric, GetParam().extra);
    constexpr std::size_t length = 200'000;
    Place source(*pair.a, host, length), target(*pair.b, 0, length), back(*pair.a, 1, length);
    const auto region = pair.a->load_remote_memory("beta", pair.b->memory_metadata(*target.region),
                                                   target.address, target.length);
    for (std::uint32_t round = 1; round < 4; ++round) {
        source.fill(round);
        const LocalDescriptor here[] = {{source.address, length, &source.region}};
        const RemoteDescriptor there[] = {{target.address, length, &region}};
        Transfer* write = pair.a->prepare(Operation::write, here, there, "beta", "look");
        ASSERT_EQ(pair.run(*write), Status::ok);
        EXPECT_EQ(gpu_view(target), source.content()) << "after the WRITE's end";
        ASSERT_EQ(pair.notifications(1).size(), 1u);
        const LocalDescriptor into[] = {{back.address, length, &back.region}};
        Transfer* read = pair.a->prepare(Operation::read, into, there, "beta", std::nullopt);
        ASSERT_EQ(pair.run(*read), Status::ok);
        EXPECT_EQ(gpu_view(back), source.content()) << "after the READ's end";
        pair.a->release(write);
        pair.a->release(read);
    }
    source.drop(*pair.a);
    back.drop(*pair.a);
    target.drop(*pair.b);
}

TEST_P(GpuMemory, BothWaysAtOnceOverOnePairOfGpusEnds) {
    EnginePair pair(GetParam().fabric, GetParam().fabric, GetParam().extra);
    constexpr std::size_t length = 24u << 20;  // more than all staging buffers
    Place at_a(*pair.a, 0, 2 * length), at_b(*pair.b, 0, 2 * length);
    at_a.fill(3);
    at_b.fill(4);
    const auto in_b =
        pair.a->load_remote_memory("beta", pair.b->memory_metadata(*at_b.region), at_b.address, at_b.length);
    const auto in_a =
        pair.b->load_remote_memory("alpha", pair.a->memory_metadata(*at_a.region), at_a.address, at_a.length);
    const std::vector<std::uint8_t> a_before = at_a.content(), b_before = at_b.content();
    const LocalDescriptor from_a[] = {{at_a.address, length, &at_a.region}};
    const RemoteDescriptor to_b[] = {{at_b.address + length, length, &in_b}};
    const LocalDescriptor from_b[] = {{at_b.address, length, &at_b.region}};
    const RemoteDescriptor to_a[] = {{at_a.address + length, length, &in_a}};
    Transfer* forth = pair.a->prepare(Operation::write, from_a, to_b, "beta", std::nullopt);
    Transfer* back = pair.b->prepare(Operation::write, from_b, to_a, "alpha", std::nullopt);
    Status first = pair.a->post(*forth), second = pair.b->post(*back);
    ASSERT_TRUE(pair.until([&] {
        if (first == Status::in_progress) first = pair.a->poll(*forth);
        if (second == Status::in_progress) second = pair.b->poll(*back);
        return first != Status::in_progress && second != Status::in_progress;
    }));
    EXPECT_EQ(first, Status::ok);
    EXPECT_EQ(second, Status::ok);
    const std::vector<std::uint8_t> a_after = at_a.content(), b_after = at_b.content();
    EXPECT_TRUE(std::equal(a_before.begin(), a_before.begin() + length, b_after.begin() + length));
    EXPECT_TRUE(std::equal(b_before.begin(), b_before.begin() + length, a_after.begin() + length));
    pair.a->release(forth);
    pair.b->release(back);
    at_a.drop(*pair.a);
    at_b.drop(*pair.b);
}

TEST_P(GpuMemory, WhatIsNoMemoryOfTheGpuIsRefusedWithTheReason) {
    const auto engine = make_engine("careful", GetParam().fabric, GetParam().extra);
    Place place(*engine, 0, 10'000);
    std::vector<std::uint8_t> plain(5000);
    const auto refused = [&](Status status, const std::string& word, std::uint64_t address,
                             std::uint64_t length, std::uint64_t gpu) {
        expect_error(status, word,
                     [&] { engine->register_memory(address, length, gpu, MemoryType::device); });
    };
    refused(Status::invalid_param, "device 0, not 1", place.address, 100, 1);
    refused(Status::invalid_param, "there is no GPU 77", place.address, 100, 77);
    refused(Status::invalid_param, "", reinterpret_cast<std::uint64_t>(plain.data()), 100, 0);
    refused(Status::invalid_param, "", place.address + 9000, 1u << 30, 0);
    refused(Status::invalid_param, "", place.address, UINT64_MAX, 0);
    const Managed managed(4096);
    refused(Status::not_supported, "managed", managed.address, 4096, 0);
    EXPECT_EQ(engine->register_memory(place.address, 0, 0, MemoryType::device)->length, 0u);
    place.drop(*engine);
}

/// However it is moved: a fill or copy of the program's that has returned is to be over.
TEST_P(GpuMemory, ItsSynchronousCopiesEndBeforeTheyReturn) {
    const auto engine = make_engine("waits", GetParam().fabric, GetParam().extra);
    Place place(*engine, 0, 10'000);
    int waits = 0;
    void* value = &waits;
    CUpointer_attribute which = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
    EXPECT_EQ(cuda_driver().pointer_get_attributes(1, &which, &value, place.address + 500), CUDA_SUCCESS);
    EXPECT_EQ(waits, 1);
    place.drop(*engine);
}

TEST_P(GpuMemory, WithStagingForbiddenOnlyZeroCopyMemoryIsTaken) {
    const char* forced = std::getenv("RAILYARD_TEST_STAGING");
    if (forced) GTEST_SKIP() << "vram_staging is " << forced;
    ParamMap never = GetParam().extra;
    never["vram_staging"] = "never";
    const auto engine = make_engine("strict", GetParam().fabric, never);
    // A rail may reach GPU memory in general, and this GPU not be reachable.
    if (zero_copy() || !GetParam().fabric.provider.starts_with("efa")) {
        EXPECT_EQ(engine->takes_gpu_memory(), zero_copy());
    }
    if (zero_copy()) {
        Place place(*engine, 0, 1000);
        EXPECT_FALSE(place.region->staged);
        place.drop(*engine);
    } else {
        expect_error(Status::not_supported, "vram_staging is never",
                     [&] { const Place place(*engine, 0, 1000); });
    }
}

TEST_P(GpuMemory, ThatTheSettingsLeaveOutIsNotThere) {
    ParamMap only = GetParam().extra;
    only["gpu_devices"] = "1";
    const auto one = make_engine("one", GetParam().fabric, only);
    EXPECT_TRUE(one->takes_gpu_memory());
    expect_error(Status::invalid_param, "GPUs of this engine: 1", [&] { const Place place(*one, 0, 1000); });
    Place place(*one, 1, 1000);
    place.drop(*one);
    only["gpu_devices"] = "none";
    const auto none = make_engine("none", GetParam().fabric, only);
    EXPECT_FALSE(none->takes_gpu_memory());
    expect_error(Status::not_supported, "gpu_devices is none", [&] { const Place at(*none, 0, 1000); });
    for (const char* bad : {"0,", "x", "0,99", "-1"}) {
        only["gpu_devices"] = bad;
        expect_error(Status::invalid_param, "gpu_devices",
                     [&] { make_engine("bad", GetParam().fabric, only); });
    }
}

TEST_P(GpuMemory, AfterDeregistrationNothingMayBePosted) {
    EnginePair pair(GetParam().fabric, GetParam().fabric, GetParam().extra);
    Place local(*pair.a, 0, 5000), remote(*pair.b, 1, 5000);
    const auto region =
        pair.a->load_remote_memory("beta", pair.b->memory_metadata(*remote.region), remote.address, 5000);
    const LocalDescriptor here[] = {{local.address, 5000, &local.region}};
    const RemoteDescriptor there[] = {{remote.address, 5000, &region}};
    Transfer* transfer = pair.a->prepare(Operation::write, here, there, "beta", std::nullopt);
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    // Gone at the target: whoever moves the bytes says so.
    remote.drop(*pair.b);
    const Status late = pair.run(*transfer);
    EXPECT_NE(late, Status::ok);
    EXPECT_NE(late, Status::in_progress);
    local.drop(*pair.a);
    EXPECT_EQ(pair.a->post(*transfer), Status::invalid_param);
    pair.a->release(transfer);
}

TEST_P(GpuMemory, RegisteredOnceMoreItStaysUsable) {
    EnginePair pair(GetParam().fabric, GetParam().fabric, GetParam().extra);
    constexpr std::size_t length = 50'000;
    for (const Way& way : ways()) {
        SCOPED_TRACE(describe(way));
        const int where = way.pairing.local;
        Place local(*pair.a, where, length), remote(*pair.b, way.pairing.remote, length);
        const auto region = pair.a->load_remote_memory("beta", pair.b->memory_metadata(*remote.region),
                                                       remote.address, length);
        const LocalDescriptor here[] = {{local.address, length, &local.region}};
        const RemoteDescriptor there[] = {{remote.address, length, &region}};
        Transfer* transfer = pair.a->prepare(way.operation, here, there, "beta", std::nullopt);
        for (std::uint32_t round = 0; round < 2; ++round) {
            auto anew = pair.a->register_memory(local.address, length,
                                                where == host ? 0 : static_cast<std::uint64_t>(where),
                                                where == host ? MemoryType::host : MemoryType::device);
            local.drop(*pair.a);
            local.region = std::move(anew);
            const bool write = way.operation == Operation::write;
            (write ? local : remote).fill(round + 7);
            EXPECT_EQ(pair.run(*transfer), Status::ok);
            EXPECT_EQ(local.content(), remote.content());
        }
        local.drop(*pair.a);
        EXPECT_EQ(pair.a->post(*transfer), Status::invalid_param);
        pair.a->release(transfer);
        remote.drop(*pair.b);
    }
}

/// Over the same allocation, of which the host takes no other description.
TEST_P(GpuMemory, APeersMemoryThatIsRegisteredOnceMoreStaysUsable) {
    if (!describes_as_before(GetParam().fabric)) GTEST_SKIP() << "nobody would answer";
    EnginePair pair(GetParam().fabric, GetParam().fabric, GetParam().extra);
    constexpr std::size_t length = 50'000;
    for (const Way& way : ways()) {
        SCOPED_TRACE(describe(way));
        const int where = way.pairing.remote;
        Place local(*pair.a, way.pairing.local, length), remote(*pair.b, where, length);
        const std::string metadata = pair.b->memory_metadata(*remote.region);
        const auto region = pair.a->load_remote_memory("beta", metadata, remote.address, length);
        const LocalDescriptor here[] = {{local.address, length, &local.region}};
        const RemoteDescriptor there[] = {{remote.address, length, &region}};
        Transfer* transfer = pair.a->prepare(way.operation, here, there, "beta", std::nullopt);
        const auto again = [&] {
            return pair.b->register_memory(remote.address, length,
                                           where == host ? 0 : static_cast<std::uint64_t>(where),
                                           where == host ? MemoryType::host : MemoryType::device);
        };
        for (std::uint32_t round = 0; round < 4; ++round) {
            const bool one_at_a_time = round % 2 != 0 || draws_its_keys(GetParam().fabric);
            auto anew = one_at_a_time ? nullptr : again();
            pair.b->deregister_memory(remote.region);
            remote.region = one_at_a_time ? again() : std::move(anew);
            EXPECT_EQ(pair.b->memory_metadata(*remote.region), metadata);
            const bool write = way.operation == Operation::write;
            (write ? local : remote).fill(round + 7);
            EXPECT_EQ(pair.run(*transfer), Status::ok);
            EXPECT_EQ(local.content(), remote.content());
        }
        pair.a->release(transfer);
        local.drop(*pair.a);
        remote.drop(*pair.b);
    }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, GpuMemory, testing::ValuesIn(gpu_fabrics()), gpu_fabric_name);

}  // namespace
}  // namespace railyard::test
