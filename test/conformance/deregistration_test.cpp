// Memory that is deregistered while a transfer of it is being made.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "engine/transfer.h"
#include "engine_pair.h"
#include "log_lines.h"
#include "manager/registration.h"

namespace railyard::test {
namespace {

class DeregistrationTest : public testing::TestWithParam<Fabric> {};

/// Each post looks for what has been deregistered since its handle was begun, however long that took.
TEST_P(DeregistrationTest, MemoryThatGoesWhileItsHandleIsPreparedIsNotUsed) {
    EnginePair pair(GetParam());
    Buffer source(*pair.a, 4096), target(*pair.b, 4096);
    const auto remote = pair.publish(target);
    constexpr std::size_t count = 200'000;
    std::vector<LocalDescriptor> from(count, source.local(0, 8));
    const std::vector<RemoteDescriptor> to(count, {target.address(), 8, &remote});
    Transfer* transfer = nullptr;
    for (int attempt = 0; attempt < 20 && !transfer; ++attempt) {
        Buffer going(*pair.a, 4096);
        from.front() = going.local(0, 8);
        std::atomic<bool> begun{false};
        std::thread preparing([&] {
            begun = true;
            try {
                transfer = pair.a->prepare(Operation::write, from, to, "beta", std::nullopt);
            } catch (const Error&) {
                // It was gone before the first look.
            }
        });
        while (!begun) {
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        pair.a->deregister_memory(going.region);
        preparing.join();
    }
    ASSERT_NE(transfer, nullptr);
    EXPECT_EQ(pair.a->post(*transfer), Status::invalid_param);
    pair.a->release(transfer);
}

TEST_P(DeregistrationTest, MemoryOfATransferThatIsBeingMadeIsNotDeregistered) {
    EnginePair pair(GetParam());
    Buffer buffer(*pair.a, 4096);
    buffer.region->pins = 1;
    std::atomic<bool> over{false};
    std::thread deregistering([&] {
        pair.a->deregister_memory(buffer.region);
        over = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_FALSE(over);
    buffer.region->pins = 0;
    deregistering.join();
    EXPECT_TRUE(over);
}

/// libfabric may go on with it, for nobody knows how long.
TEST_P(DeregistrationTest, MemoryOfWhatWasGivenUpIsRefusedAtOnceAndGoesWithIt) {
    EnginePair pair(GetParam(), GetParam(), {{"connect_timeout_ms", "2000"}});
    Buffer buffer(*pair.a, 4096);
    buffer.region->given_up = 1;
    const auto begin = std::chrono::steady_clock::now();
    expect_error(Status::not_allowed, "given up", [&] { pair.a->deregister_memory(buffer.region); });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(2000));
    EXPECT_FALSE(buffer.region->deregistered.load());
    buffer.region->given_up = 0;
    EXPECT_TRUE(pair.until([&] { return buffer.region->deregistered.load(); }));
}

/// A host that ends deregisters hundreds of ranges, one after the other.
TEST_P(DeregistrationTest, ATransferIsWaitedForOnceForAllOfItsMemory) {
    constexpr std::size_t size = 2 << 20;
    EnginePair pair(GetParam(), GetParam(), {{"connect_timeout_ms", "1000"}});
    std::vector<std::unique_ptr<Buffer>> sources;
    Buffer target(*pair.b, 4 * size);
    const auto remote = pair.publish(target);
    std::vector<LocalDescriptor> from;
    std::vector<RemoteDescriptor> to;
    for (std::size_t i = 0; i < 4; ++i) {
        sources.push_back(std::make_unique<Buffer>(*pair.a, size));
        from.push_back(sources.back()->local(0, size));
        to.push_back({target.address() + i * size, size, &remote});
    }
    Transfer* transfer = pair.a->prepare(Operation::write, from, to, "beta", std::nullopt);
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    const Status posted = pair.a->post(*transfer);
    if (GetParam().progress_thread || may_write_alone(GetParam()) || posted != Status::in_progress) {
        if (posted == Status::in_progress) {
            EXPECT_EQ(pair.wait(*transfer), Status::ok);  // before its memory goes
        }
        GTEST_SKIP() << "it cannot be kept in flight";
    }
    const auto begin = std::chrono::steady_clock::now();
    for (const auto& source : sources)
        expect_error(Status::not_allowed, "in flight", [&] { pair.a->deregister_memory(source->region); });
    const auto waited = std::chrono::steady_clock::now() - begin;
    EXPECT_GE(waited, std::chrono::milliseconds(1000));
    EXPECT_LT(waited, std::chrono::milliseconds(3000)) << "for each of them";
    expect_error(Status::not_allowed, "in flight", [&] { pair.a->deregister_memory(sources[1]->region); });
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(2000)) << "who asks again";
    // Where the provider has not taken all of it, what is left was given up after connect_timeout_ms.
    EXPECT_NE(pair.wait(*transfer), Status::in_progress);
    pair.a->release(transfer);
    EXPECT_TRUE(pair.until([&] {
        return std::all_of(sources.begin(), sources.end(),
                           [](const auto& source) { return source->region->deregistered.load(); });
    }));
}

/// As programs do that register for each of their operations, and drop the one before afterwards.
TEST_P(DeregistrationTest, MemoryThatIsRegisteredOnceMoreStaysUsable) {
    EnginePair pair(GetParam());
    constexpr std::size_t size = 100'000;
    Buffer source(*pair.a, size), other(*pair.a, size), target(*pair.b, size);
    const auto remote = pair.publish(target), ourselves = pair.a->local_as_remote(source.region);
    const LocalDescriptor from[] = {source.local(0, 60'000), other.local(0, 40'000)};
    const RemoteDescriptor to[] = {{target.address(), 60'000, &remote},
                                   {target.address() + 60'000, 40'000, &remote}};
    const LocalDescriptor here[] = {other.local(0, size)};
    const RemoteDescriptor there[] = {{source.address(), size, &ourselves}};
    Transfer* const write = pair.a->prepare(Operation::write, from, to, "beta", std::nullopt);
    Transfer* const read = pair.a->prepare(Operation::read, from, to, "beta", std::nullopt);
    Transfer* const copy = pair.a->prepare(Operation::read, here, there, "alpha", std::nullopt);
    const auto anew = [&] {
        // The last one is taken, whatever there was in between.
        const auto between = pair.a->register_memory(source.address(), size, 0);
        auto last = pair.a->register_memory(source.address(), size, 0);
        pair.a->deregister_memory(std::exchange(source.region, std::move(last)));
        return between;
    };
    for (std::uint32_t round = 0; round < 3; ++round) {
        const auto between = anew();
        fill_pattern(source.bytes, round + 1);
        fill_pattern(other.bytes, round + 10);
        ASSERT_EQ(pair.run(*write), Status::ok);
        EXPECT_EQ(write->locals.front(), source.region);
        EXPECT_TRUE(std::equal(source.bytes.begin(), source.bytes.begin() + 60'000, target.bytes.begin()));
        EXPECT_TRUE(
            std::equal(other.bytes.begin(), other.bytes.begin() + 40'000, target.bytes.begin() + 60'000));
        fill_pattern(target.bytes, round + 20);
        ASSERT_EQ(pair.run(*read), Status::ok);
        EXPECT_TRUE(std::equal(source.bytes.begin(), source.bytes.begin() + 60'000, target.bytes.begin()));
        ASSERT_EQ(pair.run(*copy), Status::ok);
        EXPECT_EQ(source.bytes, other.bytes);
        pair.a->deregister_memory(between);
    }
    // Neither one that is too small, nor one that is gone, too.
    const auto smaller = pair.a->register_memory(source.address(), size - 1, 0);
    pair.a->deregister_memory(source.region);
    for (Transfer* const refused : {write, read, copy})
        EXPECT_EQ(pair.a->post(*refused), Status::invalid_param);
    const auto larger = pair.a->register_memory(source.address(), size, 0);
    for (Transfer* const transfer : {write, read, copy}) {
        EXPECT_EQ(pair.run(*transfer), Status::ok);
        pair.a->release(transfer);
    }
}

/// A host that knows the memory from before takes no other description of it, and does not show it again.
/// `overlapping`: there is another registration when the first one goes, and then there is none for a
/// while.
void stays_usable(const Fabric& fabric, const ParamMap& extra, bool overlapping) {
    EnginePair pair(fabric, fabric, extra);
    constexpr std::size_t size = 100'000;
    Buffer source(*pair.a, size), target(*pair.b, size), other(*pair.b, size);
    const std::string metadata = pair.b->memory_metadata(*target.region);
    const auto remote = pair.publish(target), beside = pair.publish(other);
    std::vector<Transfer*> transfers;
    for (const std::size_t length : {size, std::size_t{8}, std::size_t{4096}}) {
        const LocalDescriptor from = source.local(0, length);
        const RemoteDescriptor to{target.address(), length, &remote};
        for (const std::optional<std::string_view> text : {std::optional<std::string_view>("here"), {}})
            transfers.push_back(pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", text));
        transfers.push_back(pair.a->prepare(Operation::read, {&from, 1}, {&to, 1}, "beta", std::nullopt));
    }
    std::uint32_t number = 0;
    const auto all_move = [&] {
        for (Transfer* transfer : transfers) {
            const bool write = transfer->kind == Work::Kind::write;
            fill_pattern(write ? source.bytes : target.bytes, ++number);
            ASSERT_EQ(pair.run(*transfer), Status::ok);
            const auto length = static_cast<std::ptrdiff_t>(transfer->total_bytes);
            EXPECT_TRUE(
                std::equal(source.bytes.begin(), source.bytes.begin() + length, target.bytes.begin()));
        }
    };
    all_move();
    for (int round = 0; round < 3; ++round) {
        if (overlapping) {
            auto again = pair.b->register_memory(target.address(), size, 0);
            EXPECT_EQ(pair.b->memory_metadata(*again), metadata);
            all_move();
            pair.b->deregister_memory(std::exchange(target.region, std::move(again)));
            all_move();
        }
        pair.b->deregister_memory(target.region);
        const auto in_between = pair.b->register_memory(other.address(), size, 0);
        target.region = pair.b->register_memory(target.address(), size, 0);
        pair.b->deregister_memory(in_between);
        EXPECT_EQ(pair.b->memory_metadata(*target.region), metadata);
        all_move();
    }
    if (draws_its_keys(fabric)) {
        pair.b->deregister_memory(target.region);
        const LogLines lines;
        EXPECT_EQ(pair.run(*transfers.front()), Status::backend) << "it is not registered any more";
        EXPECT_EQ(LogLines::count("has failed: "), 1) << "whose, and why";
    }
    for (Transfer* transfer : transfers)
        pair.a->release(transfer);
}

/// Where NICs draw the keys, the older ones are refused, and the present ones asked for.
TEST_P(DeregistrationTest, APeersMemoryThatIsRegisteredOnceMoreStaysUsable) {
    if (!describes_as_before(GetParam())) GTEST_SKIP() << "nobody would answer";
    stays_usable(GetParam(), {}, !draws_its_keys(GetParam()));
}

TEST_P(DeregistrationTest, ItDoesWhileItIsRegisteredWhereTheProgramSaysSo) {
    if (draws_its_keys(GetParam()) && !asks_for_keys(GetParam())) GTEST_SKIP() << "nobody asks";
    stays_usable(GetParam(), {{"keep_keys", "always"}}, true);
}

/// A WRITE of Alpha's to memory of Beta's, whose present keys it asks for when it is refused.
struct WriterThatAsks {
    WriterThatAsks(const Fabric& fabric, const char* connect_timeout_ms)
        : pair(fabric, fabric, {{"keep_keys", "always"}, {"connect_timeout_ms", connect_timeout_ms}}),
          source(*pair.a, 4096, 7),
          target(*pair.b, 4096),
          remote(pair.publish(target)) {
        prepare();
    }
    ~WriterThatAsks() { pair.a->release(transfer); }
    void prepare() {
        const LocalDescriptor from = source.local(0, 4096);
        const RemoteDescriptor to{target.address(), 4096, &remote};
        transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    }
    EnginePair pair;
    Buffer source, target;
    std::shared_ptr<RemoteRegion> remote;
    Transfer* transfer = nullptr;
};

/// As long as the owner does not answer, but no longer than anybody is waited for.
TEST_P(DeregistrationTest, AnOwnerThatNobodyDrivesIsNotWaitedForForEver) {
    const Fabric& fabric = GetParam();
    if (!asks_for_keys(fabric) || fabric.progress_thread)
        GTEST_SKIP() << "nobody is asked, or a thread answers";
    WriterThatAsks writer(fabric, "700");
    EnginePair& pair = writer.pair;
    Buffer& target = writer.target;
    Transfer* const transfer = writer.transfer;
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    pair.b->deregister_memory(target.region);
    target.region = pair.b->register_memory(target.address(), 4096, 0);
    const auto begin = std::chrono::steady_clock::now(), limit = begin + std::chrono::seconds(10);
    Status status = pair.a->post(*transfer);
    while (status == Status::in_progress && std::chrono::steady_clock::now() < limit)
        status = pair.a->poll(*transfer);
    EXPECT_EQ(status, Status::backend);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(600))
        << "it was waited for";
    EXPECT_EQ(pair.run(*transfer), Status::ok) << "it is driven";
}

/// Each answer is old by the time it is there.
TEST_P(DeregistrationTest, KeysThatNeverStayAreNotAskedForForEver) {
    const Fabric& fabric = GetParam();
    if (!asks_for_keys(fabric) || fabric.progress_thread)
        GTEST_SKIP() << "nobody is asked, or a thread answers in between";
    WriterThatAsks writer(fabric, "60000");
    EnginePair& pair = writer.pair;
    Buffer& target = writer.target;
    Transfer* const transfer = writer.transfer;
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    const auto register_once_more = [&] {
        // Beside the old one, whose key it would get else.
        auto next = pair.b->register_memory(target.address(), 4096, 0);
        pair.b->deregister_memory(std::exchange(target.region, std::move(next)));
    };
    register_once_more();
    Status status = pair.a->post(*transfer);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    int registrations = 1;
    while (status == Status::in_progress && std::chrono::steady_clock::now() < limit) {
        status = pair.a->poll(*transfer);
        pair.b->progress();  // which may answer
        register_once_more();
        ++registrations;
    }
    EXPECT_EQ(status, Status::backend) << "after " << registrations << " registrations";
    EXPECT_GT(registrations, 8) << "it gave up too soon";
    EXPECT_EQ(pair.run(*transfer), Status::ok) << "they stay";
}

/// The last question about a region may be the last to know the peer that it was put to, which gives its
/// addresses back to the rails when it goes: not while a rail has the next question put.
TEST_P(DeregistrationTest, APeerThatWasForgottenMayBeAskedForKeysOnceItIsKnownAgain) {
    if (!asks_for_keys(GetParam())) GTEST_SKIP() << "nobody is asked";
    WriterThatAsks writer(GetParam(), "60000");
    EnginePair& pair = writer.pair;
    const auto register_once_more = [&] {
        auto next = pair.b->register_memory(writer.target.address(), 4096, 0);
        pair.b->deregister_memory(std::exchange(writer.target.region, std::move(next)));
    };
    for (int life = 0; life < 3; ++life) {
        register_once_more();
        ASSERT_EQ(pair.run(*writer.transfer), Status::ok);
        pair.a->release(std::exchange(writer.transfer, nullptr));
        pair.a->disconnect("beta");
        pair.a->load_connection_info("beta", pair.b->connection_info());
        writer.prepare();
    }
}

/// Those of the older one may be for pages that are not there any more.
TEST_P(DeregistrationTest, WhileNicsKnowItItIsDescribedAnew) {
    EnginePair pair(GetParam());
    Buffer target(*pair.b, 4096);
    const std::string metadata = pair.b->memory_metadata(*target.region);
    auto again = pair.b->register_memory(target.address(), 4096, 0);
    EXPECT_EQ(pair.b->memory_metadata(*again) != metadata, draws_its_keys(GetParam()));
    pair.b->deregister_memory(again);
}

TEST_P(DeregistrationTest, WithKeysOfItsOwnEachRegistrationIsDescribedAnew) {
    EnginePair pair(GetParam(), GetParam(), {{"keep_keys", "off"}});
    Buffer target(*pair.b, 4096);
    const std::string metadata = pair.b->memory_metadata(*target.region);
    auto again = pair.b->register_memory(target.address(), 4096, 0);
    EXPECT_NE(pair.b->memory_metadata(*again), metadata);
    pair.b->deregister_memory(std::exchange(target.region, std::move(again)));
    pair.b->deregister_memory(target.region);
    target.region = pair.b->register_memory(target.address(), 4096, 0);
    EXPECT_NE(pair.b->memory_metadata(*target.region), metadata);
}

/// Between the look for another one and the post, that may be gone as well.
TEST_P(DeregistrationTest, AnotherRegistrationIsTakenWhileAThreadTakesTheOldOneAway) {
    EnginePair pair(GetParam());
    Buffer source(*pair.a, 4096), target(*pair.b, 4096);
    const auto remote = pair.publish(target);
    const LocalDescriptor from = source.local(0, 4096);
    const RemoteDescriptor to{target.address(), 4096, &remote};
    Transfer* const transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    constexpr int enough = 500;
    std::atomic<int> moved{0};
    std::shared_ptr<Registration> last = pair.a->register_memory(source.address(), 4096, 0);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::thread registering([&] {
        while (moved < enough && std::chrono::steady_clock::now() < limit) {
            auto next = pair.a->register_memory(source.address(), 4096, 0);
            pair.a->deregister_memory(std::exchange(last, std::move(next)));
        }
    });
    pair.a->deregister_memory(source.region);
    while (moved < enough && std::chrono::steady_clock::now() < limit) {
        const Status status = pair.run(*transfer);
        EXPECT_EQ(status, Status::ok) << "there is always one";
        moved = status == Status::ok ? moved + 1 : enough;
    }
    registering.join();
    EXPECT_EQ(moved, enough);
    pair.a->deregister_memory(last);
    EXPECT_EQ(pair.a->post(*transfer), Status::invalid_param);
    pair.a->release(transfer);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, DeregistrationTest,
                         testing::ValuesIn(fabrics({Fabric{"tcp", 1, false}, Fabric{"tcp", 4, false},
                                                    Fabric{"tcp", 4, true}, Fabric{"shm", 1, false},
                                                    Fabric{"shm", 4, true}})),
                         fabric_name);

}  // namespace
}  // namespace railyard::test
