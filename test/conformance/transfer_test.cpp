// Transfers: every fabric must pass all of this.
#include <algorithm>
#include <random>

#include <sys/mman.h>

#include "engine/transfer.h"
#include "engine_pair.h"

namespace railyard::test {
namespace {

class TransferTest : public testing::TestWithParam<Fabric> {};

constexpr std::size_t guard = 64;

TEST_P(TransferTest, WritePlacesTheBytesBeforeSuccess) {
    EnginePair pair(GetParam());
    for (std::size_t size :
         {std::size_t{1}, std::size_t{8}, std::size_t{4096}, std::size_t{65537}, std::size_t{3} << 20}) {
        Buffer source(*pair.a, size);
        Buffer target(*pair.b, size + 2 * guard, 0xEE);
        fill_pattern(source.bytes, static_cast<std::uint32_t>(size));
        const auto remote = pair.publish(target);
        const LocalDescriptor from = source.local(0, size);
        const RemoteDescriptor to{target.address() + guard, size, &remote};
        Transfer* transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
        ASSERT_EQ(pair.run(*transfer), Status::ok);
        // No progress between SUCCESS and this look.
        EXPECT_TRUE(std::equal(source.bytes.begin(), source.bytes.end(), target.bytes.begin() + guard))
            << size;
        for (std::size_t i = 0; i < guard; ++i) {
            ASSERT_EQ(target.bytes[i], 0xEE);
            ASSERT_EQ(target.bytes[guard + size + i], 0xEE);
        }
        pair.a->release(transfer);
    }
}

/// Where SUCCESS needs nothing of the target: with nobody driving it, the bytes are there all the same.
TEST_P(TransferTest, ShmPlacesTheBytesWithoutTheTarget) {
    if (!writes_alone(GetParam()) || GetParam().progress_thread) return;
    EnginePair pair(GetParam());
    constexpr std::size_t count = 100;
    for (std::size_t length : {1, 64, 4096, 100'000}) {
        Buffer source(*pair.a, count * length);
        Buffer target(*pair.b, count * length, 0xEE);
        fill_pattern(source.bytes, static_cast<std::uint32_t>(length));
        const auto remote = pair.publish(target);
        std::vector<LocalDescriptor> from;
        std::vector<RemoteDescriptor> to;
        for (std::size_t i = 0; i < count; ++i) {
            from.push_back(source.local(i * length, length));
            to.push_back({target.address() + i * length, length, &remote});
        }
        Transfer* transfer = pair.a->prepare(Operation::write, from, to, "beta", std::nullopt);
        ASSERT_EQ(pair.run(*transfer), Status::ok);  // the first one makes the connection
        std::fill(target.bytes.begin(), target.bytes.end(), std::uint8_t{0});
        ASSERT_EQ(run_alone(*pair.a, *transfer), Status::ok) << length;
        EXPECT_TRUE(target.bytes == source.bytes) << length;
        pair.a->release(transfer);
    }
}

TEST_P(TransferTest, ReadFetchesTheBytes) {
    EnginePair pair(GetParam());
    for (std::size_t size : {std::size_t{1}, std::size_t{4096}, std::size_t{1000003}}) {
        Buffer target(*pair.a, size + 2 * guard, 0xEE);
        Buffer source(*pair.b, size);
        fill_pattern(source.bytes, static_cast<std::uint32_t>(size));
        const auto remote = pair.publish(source);
        const LocalDescriptor into = target.local(guard, size);
        const RemoteDescriptor from{source.address(), size, &remote};
        Transfer* transfer = pair.a->prepare(Operation::read, {&into, 1}, {&from, 1}, "beta", std::nullopt);
        ASSERT_EQ(pair.run(*transfer), Status::ok);
        EXPECT_TRUE(std::equal(source.bytes.begin(), source.bytes.end(), target.bytes.begin() + guard))
            << size;
        EXPECT_EQ(target.bytes[guard - 1], 0xEE);
        EXPECT_EQ(target.bytes[guard + size], 0xEE);
        pair.a->release(transfer);
    }
}

TEST_P(TransferTest, ManyDescriptorsOfAnyLengthAndAlignment) {
    EnginePair pair(GetParam());
    std::mt19937 random(7);
    constexpr std::size_t count = 2000;
    constexpr std::size_t slot = 1200;
    Buffer source(*pair.a, count * slot);
    Buffer target(*pair.b, count * slot, 0xEE);
    fill_pattern(source.bytes, 3);
    std::vector<std::uint8_t> expected = target.bytes;
    const auto remote = pair.publish(target);
    std::vector<LocalDescriptor> from;
    std::vector<RemoteDescriptor> to;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t length = random() % 1000;  // zero too
        const std::size_t in = i * slot + random() % 200;
        const std::size_t out = (count - 1 - i) * slot + random() % 200;
        from.push_back(source.local(in, length));
        to.push_back({target.address() + out, length, &remote});
        std::copy_n(source.bytes.begin() + static_cast<long>(in), length,
                    expected.begin() + static_cast<long>(out));
    }
    Transfer* transfer = pair.a->prepare(Operation::write, from, to, "beta", std::nullopt);
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    EXPECT_TRUE(target.bytes == expected);
    pair.a->release(transfer);
}

TEST_P(TransferTest, AHundredThousandDescriptors) {
    EnginePair pair(GetParam());
    constexpr std::size_t count = 100'000;
    constexpr std::size_t block = 24;
    Buffer source(*pair.a, count * block);
    Buffer target(*pair.b, count * block);
    fill_pattern(source.bytes, 11);
    const auto remote = pair.publish(target);
    std::vector<LocalDescriptor> from;
    std::vector<RemoteDescriptor> to;
    for (std::size_t i = 0; i < count; ++i) {
        from.push_back(source.local(i * block, block));
        to.push_back({target.address() + i * block, block, &remote});
    }
    Transfer* transfer = pair.a->prepare(Operation::write, from, to, "beta", std::nullopt);
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    EXPECT_TRUE(target.bytes == source.bytes);
    pair.a->release(transfer);
}

TEST_P(TransferTest, AHandleIsRepostedManyTimesAndRefusedWhileActive) {
    EnginePair pair(GetParam());
    constexpr std::size_t size = 1 << 20;
    Buffer source(*pair.a, size);
    Buffer target(*pair.b, size);
    const auto remote = pair.publish(target);
    const LocalDescriptor from = source.local(0, size);
    const RemoteDescriptor to{target.address(), size, &remote};
    Transfer* transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    EXPECT_EQ(pair.a->poll(*transfer), Status::not_posted);
    for (std::uint32_t round = 0; round < 30; ++round) {
        fill_pattern(source.bytes, round);
        const Status posted = pair.a->post(*transfer);
        if (posted == Status::in_progress && !GetParam().progress_thread) {
            EXPECT_EQ(pair.a->post(*transfer), Status::repost_active);
        }
        ASSERT_EQ(posted == Status::in_progress ? pair.wait(*transfer) : posted, Status::ok);
        ASSERT_TRUE(target.bytes == source.bytes) << "round " << round;
    }
    pair.a->release(transfer);
}

/// As whoever gives up a peer stops all that is under way to it.
TEST_P(TransferTest, WhoStopsARoundWhoseEndHasBeenSeenComesTooLate) {
    EnginePair pair(GetParam());
    Buffer source(*pair.a, 64, 7), target(*pair.b, 64);
    const auto remote = pair.publish(target);
    const LocalDescriptor from = source.local(0, 64);
    const RemoteDescriptor to{target.address(), 64, &remote};
    Transfer* transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    for (int round = 0; round < 2; ++round) {
        ASSERT_EQ(pair.run(*transfer), Status::ok);
        transfer->stop(Status::canceled);
        EXPECT_EQ(pair.a->poll(*transfer), Status::ok);
    }
    pair.a->release(transfer);
}

TEST_P(TransferTest, ManyTransfersAtOnce) {
    EnginePair pair(GetParam());
    constexpr std::size_t count = 200;
    constexpr std::size_t block = 5000;
    Buffer source(*pair.a, count * block);
    Buffer target(*pair.b, count * block);
    fill_pattern(source.bytes, 5);
    const auto remote = pair.publish(target);
    std::vector<Transfer*> transfers;
    for (std::size_t i = 0; i < count; ++i) {
        const LocalDescriptor from = source.local(i * block, block);
        const RemoteDescriptor to{target.address() + i * block, block, &remote};
        transfers.push_back(pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt));
        const Status status = pair.a->post(*transfers.back());
        ASSERT_TRUE(status == Status::in_progress || status == Status::ok);
    }
    for (Transfer* transfer : transfers) {
        ASSERT_EQ(pair.wait(*transfer), Status::ok);
        pair.a->release(transfer);
    }
    EXPECT_TRUE(target.bytes == source.bytes);
}

TEST_P(TransferTest, ToOneselfBothWays) {
    const auto engine = make_engine("alpha", GetParam());
    constexpr std::size_t size = (10 << 20) + 3;
    Buffer one(*engine, size);
    Buffer other(*engine, size);
    fill_pattern(one.bytes, 1);
    const auto remote = engine->local_as_remote(other.region);
    const LocalDescriptor here = one.local(0, size);
    const RemoteDescriptor there{other.address(), size, &remote};
    Transfer* write = engine->prepare(Operation::write, {&here, 1}, {&there, 1}, "alpha", "done");
    auto finish = [&](Transfer& transfer) { return run_alone(*engine, transfer); };
    ASSERT_EQ(finish(*write), Status::ok);
    EXPECT_TRUE(other.bytes == one.bytes);
    std::vector<Notification> got;
    engine->take_notifications(got);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].agent, "alpha");
    EXPECT_EQ(got[0].message, "done");
    fill_pattern(other.bytes, 2);
    Transfer* read = engine->prepare(Operation::read, {&here, 1}, {&there, 1}, "alpha", std::nullopt);
    ASSERT_EQ(finish(*read), Status::ok);
    EXPECT_TRUE(other.bytes == one.bytes);
    engine->release(write);
    engine->release(read);
}

TEST_P(TransferTest, OverlappingAdjacentAndZeroLengthRegistrations) {
    EnginePair pair(GetParam());
    constexpr std::size_t size = 1 << 16;
    Buffer source(*pair.a, size);
    Buffer target(*pair.b, size);
    fill_pattern(source.bytes, 9);
    const auto half = pair.a->register_memory(source.address(), size / 2, 0);
    const auto rest = pair.a->register_memory(source.address() + size / 2, size / 2, 0);
    const auto middle = pair.a->register_memory(source.address() + size / 4, size / 2, 0);
    const auto nothing = pair.a->register_memory(source.address(), 0, 0);
    const auto remote = pair.publish(target);
    const std::vector<LocalDescriptor> from = {{source.address(), size / 4, &half},
                                               {source.address() + size / 4, size / 2, &middle},
                                               {source.address(), 0, &nothing},
                                               {source.address() + 3 * size / 4, size / 4, &rest}};
    const std::vector<RemoteDescriptor> to = {{target.address(), size / 4, &remote},
                                              {target.address() + size / 4, size / 2, &remote},
                                              {target.address(), 0, &remote},
                                              {target.address() + 3 * size / 4, size / 4, &remote}};
    Transfer* transfer = pair.a->prepare(Operation::write, from, to, "beta", std::nullopt);
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    EXPECT_TRUE(target.bytes == source.bytes);
    pair.a->release(transfer);
    // One of several registrations of a range goes, the others stay good.
    pair.a->deregister_memory(half);
    const LocalDescriptor whole = source.local(0, size);
    const RemoteDescriptor all{target.address(), size, &remote};
    std::fill(target.bytes.begin(), target.bytes.end(), std::uint8_t{0});
    transfer = pair.a->prepare(Operation::write, {&whole, 1}, {&all, 1}, "beta", std::nullopt);
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    EXPECT_TRUE(target.bytes == source.bytes);
    pair.a->release(transfer);
}

TEST_P(TransferTest, ReadOnlyMemoryIsASourceAndNothingElse) {
    EnginePair pair(GetParam());
    constexpr std::size_t size = 8192;
    void* mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    const auto address = reinterpret_cast<std::uint64_t>(mapped);
    const auto read_only = pair.a->register_memory(address, size, 0);
    Buffer target(*pair.b, size, 0xEE);
    const auto remote = pair.publish(target);
    const LocalDescriptor from{address, size, &read_only};
    const RemoteDescriptor to{target.address(), size, &remote};
    Transfer* transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    EXPECT_EQ(std::count(target.bytes.begin(), target.bytes.end(), 0), static_cast<long>(size));
    pair.a->release(transfer);
    EXPECT_THROW(pair.a->prepare(Operation::read, {&from, 1}, {&to, 1}, "beta", std::nullopt), Error);

    const auto published = pair.b->register_memory(address, size, 0);
    const auto remote_read_only =
        pair.a->load_remote_memory("beta", pair.b->memory_metadata(*published), address, size);
    Buffer source(*pair.a, size);
    const LocalDescriptor mine = source.local(0, size);
    const RemoteDescriptor theirs{address, size, &remote_read_only};
    EXPECT_THROW(pair.a->prepare(Operation::write, {&mine, 1}, {&theirs, 1}, "beta", std::nullopt), Error);
    pair.a->deregister_memory(read_only);
    pair.b->deregister_memory(published);
    munmap(mapped, size);
}

TEST_P(TransferTest, AHugeSparseRegionCarriesItsEnds) {
    EnginePair pair(GetParam());
    // EFA takes no more of small pages in one registration.
    const bool few_pages = std::string_view(GetParam().provider).starts_with("efa");
    const std::size_t size = std::size_t{few_pages ? 4u : 64u} << 30;
    void* mapped =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) GTEST_SKIP() << "so much address space is not to be had";
    const auto address = reinterpret_cast<std::uint64_t>(mapped);
    const auto huge = pair.b->register_memory(address, size, 0);
    const auto remote = pair.a->load_remote_memory("beta", pair.b->memory_metadata(*huge), address, size);
    Buffer source(*pair.a, 4096);
    fill_pattern(source.bytes, 4);
    const std::vector<LocalDescriptor> from = {source.local(0, 4096), source.local(0, 4096)};
    const std::vector<RemoteDescriptor> to = {{address, 4096, &remote},
                                              {address + size - 4096, 4096, &remote}};
    Transfer* transfer = pair.a->prepare(Operation::write, from, to, "beta", std::nullopt);
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    for (std::uint64_t at : {address, address + size - 4096}) {
        EXPECT_TRUE(
            std::equal(source.bytes.begin(), source.bytes.end(), reinterpret_cast<std::uint8_t*>(at)));
    }
    pair.a->release(transfer);
    pair.b->deregister_memory(huge);
    munmap(mapped, size);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, TransferTest,
                         testing::ValuesIn(fabrics({Fabric{"tcp", 1, false}, Fabric{"tcp", 4, false},
                                                    Fabric{"tcp", 1, true}, Fabric{"tcp", 4, true},
                                                    Fabric{"shm", 1, false}, Fabric{"shm", 4, false},
                                                    Fabric{"shm", 1, true}, Fabric{"shm", 4, true}})),
                         fabric_name);

}  // namespace
}  // namespace railyard::test
