// Ends of things: handles, registrations, peers and engines that go while work is in flight; and bad input.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "../left_open.h"
#include "../shared_memory.h"
#include "engine_pair.h"
#include "manager/registration.h"

namespace railyard::test {
namespace {

class LifetimeTest : public testing::TestWithParam<Fabric> {};

/// A pair with one 8 MiB transfer from alpha to beta.
struct BigWrite {
    explicit BigWrite(const Fabric& fabric, const ParamMap& extra = {})
        : pair(fabric, fabric, extra),
          source(*pair.a, size),
          target(*pair.b, size),
          remote(pair.publish(target)) {
        fill_pattern(source.bytes, 1);
        transfer = prepare();
    }
    [[nodiscard]] Transfer* prepare() const {
        const LocalDescriptor from = source.local(0, size);
        const RemoteDescriptor to{target.address(), size, &remote};
        return pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    }
    static constexpr std::size_t size = 8 << 20;
    EnginePair pair;
    Buffer source, target;
    std::shared_ptr<RemoteRegion> remote;
    Transfer* transfer = nullptr;
};

TEST_P(LifetimeTest, NothingOfAHandleReleasedInFlightLandsLater) {
    BigWrite setup(GetParam());
    constexpr std::size_t small = 64 << 10;
    constexpr int turns = 8;
    Buffer source(*setup.pair.a, small);
    fill_pattern(source.bytes, 2);
    for (int turn = 1; turn <= turns; ++turn) {
        const std::size_t place = BigWrite::size / turns * turn - small;
        Transfer* whole = setup.prepare();
        const LocalDescriptor from = source.local(0, small);
        const RemoteDescriptor to{setup.target.address() + place, small, &setup.remote};
        Transfer* later = setup.pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
        ASSERT_NE(setup.pair.a->post(*whole), Status::backend);
        setup.pair.a->release(whole);
        EXPECT_EQ(setup.pair.run(*later), Status::ok);  // over one rail; the rest would come over others
        for (int pass = 0; pass < 300; ++pass) {
            setup.pair.a->progress();
            setup.pair.b->progress();
        }
        EXPECT_TRUE(std::equal(source.bytes.begin(), source.bytes.end(), setup.target.bytes.begin() + place))
            << "turn " << turn;
        setup.pair.a->release(later);
    }
}

TEST_P(LifetimeTest, EnginesGoWithWorkInFlightAndLeaveNoThread) {
    const Left before;
    {
        BigWrite setup(GetParam());
        ASSERT_NE(setup.pair.a->post(*setup.transfer), Status::backend);
        setup.pair.a.reset();
        setup.pair.b.reset();
    }
    {
        BigWrite setup(GetParam());
        ASSERT_NE(setup.pair.a->post(*setup.transfer), Status::backend);
        setup.pair.b.reset();  // the target first
        setup.pair.a.reset();
    }
    EXPECT_TRUE(comes_back_to({before.threads, SIZE_MAX})) << "of " << before.threads << " threads";
}

TEST_P(LifetimeTest, DeregistrationWaitsForTransfersOrRefuses) {
    BigWrite setup(GetParam(), {{"connect_timeout_ms", "1000"}});
    ASSERT_EQ(setup.pair.run(*setup.transfer), Status::ok);
    std::fill(setup.target.bytes.begin(), setup.target.bytes.end(), std::uint8_t{0});
    const Status posted = setup.pair.a->post(*setup.transfer);
    if (!GetParam().progress_thread && !may_write_alone(GetParam()) && posted == Status::in_progress) {
        // Nobody drives beta: the transfer cannot end, so the memory must stay.
        const auto begin = std::chrono::steady_clock::now();
        expect_error(Status::not_allowed, "in flight",
                     [&] { setup.pair.a->deregister_memory(setup.source.region); });
        const auto waited = std::chrono::steady_clock::now() - begin;
        EXPECT_GE(waited, std::chrono::milliseconds(1000)) << "connect_timeout_ms";
        EXPECT_LT(waited, std::chrono::milliseconds(6000));
        expect_error(Status::invalid_param, "deregistered", [&] { (void)setup.prepare(); });
        EXPECT_FALSE(setup.source.region->deregistered.load());
        EXPECT_EQ(setup.pair.wait(*setup.transfer), Status::ok);
    } else if (!writes_alone(GetParam()) && posted == Status::in_progress) {
        EXPECT_EQ(setup.pair.wait(*setup.transfer), Status::ok);
    }
    setup.pair.a->deregister_memory(setup.source.region);
    setup.pair.until([&] { return setup.pair.a->poll(*setup.transfer) != Status::in_progress; });
    EXPECT_TRUE(setup.target.bytes == setup.source.bytes);
    EXPECT_EQ(setup.pair.a->post(*setup.transfer), Status::invalid_param);
    setup.pair.a->release(setup.transfer);
}

/// Most versions of NIXL do not look at the answer.
TEST_P(LifetimeTest, ARefusedDeregistrationIsMadeUpForThoughNobodyAsksAgain) {
    BigWrite setup(GetParam(), {{"connect_timeout_ms", "200"}});
    ASSERT_EQ(setup.pair.run(*setup.transfer), Status::ok);
    const Status posted = setup.pair.a->post(*setup.transfer);
    if (GetParam().progress_thread || may_write_alone(GetParam()) || posted != Status::in_progress) {
        if (posted == Status::in_progress) {
            EXPECT_EQ(setup.pair.wait(*setup.transfer), Status::ok);  // before its memory goes
        }
        GTEST_SKIP() << "it cannot be kept in flight";
    }
    const std::shared_ptr<Registration> region = setup.source.region;
    expect_error(Status::not_allowed, "in flight", [&] { setup.pair.a->deregister_memory(region); });
    EXPECT_TRUE(setup.pair.until([&] { return region->deregistered.load(); }));
    EXPECT_EQ(setup.pair.a->poll(*setup.transfer), Status::ok);
    EXPECT_TRUE(setup.target.bytes == setup.source.bytes);
    EXPECT_EQ(setup.pair.a->post(*setup.transfer), Status::invalid_param);
    setup.pair.a->release(setup.transfer);
    setup.pair.a->deregister_memory(region);  // a host that does ask again
    // Its place is free for another one.
    setup.source.region = setup.pair.a->register_memory(setup.source.address(), BigWrite::size, 0);
    Transfer* again = setup.prepare();
    EXPECT_EQ(setup.pair.run(*again), Status::ok);
    setup.pair.a->release(again);
}

TEST_P(LifetimeTest, ADisconnectedPeerIsRefusedAndCanReturn) {
    BigWrite setup(GetParam());
    ASSERT_EQ(setup.pair.run(*setup.transfer), Status::ok);
    setup.pair.a->disconnect("beta");
    EXPECT_EQ(setup.pair.a->post(*setup.transfer), Status::remote_disconnect);
    setup.pair.a->release(setup.transfer);
    expect_error(Status::not_found, "beta", [&] { setup.pair.a->connect("beta"); });
    setup.pair.a->load_connection_info("beta", setup.pair.b->connection_info());
    const auto remote = setup.pair.publish(setup.target);
    const LocalDescriptor from = setup.source.local(0, 4096);
    const RemoteDescriptor to{setup.target.address(), 4096, &remote};
    Transfer* again = setup.pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    EXPECT_EQ(setup.pair.run(*again), Status::ok);
    setup.pair.a->release(again);
}

TEST_P(LifetimeTest, ARestartedPeerIsANewInstance) {
    BigWrite setup(GetParam());
    ASSERT_EQ(setup.pair.run(*setup.transfer), Status::ok);
    const std::string old_metadata = setup.pair.b->memory_metadata(*setup.target.region);
    setup.pair.b = make_engine("beta", GetParam());
    setup.pair.a->load_connection_info("beta", setup.pair.b->connection_info());
    EXPECT_EQ(setup.pair.a->post(*setup.transfer), Status::remote_disconnect);
    setup.pair.a->release(setup.transfer);
    expect_error(Status::remote_disconnect, "another instance",
                 [&] { setup.pair.a->load_remote_memory("beta", old_metadata, setup.target.address(), 1); });
    Buffer fresh(*setup.pair.b, 4096);
    const auto remote = setup.pair.publish(fresh);
    const LocalDescriptor from = setup.source.local(0, 4096);
    const RemoteDescriptor to{fresh.address(), 4096, &remote};
    const RemoteDescriptor stale{setup.target.address(), 4096, &setup.remote};
    expect_error(Status::remote_disconnect, "earlier instance", [&] {
        setup.pair.a->prepare(Operation::write, {&from, 1}, {&stale, 1}, "beta", std::nullopt);
    });
    Transfer* again = setup.pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    EXPECT_EQ(setup.pair.run(*again), Status::ok);
    setup.pair.a->release(again);
}

TEST_P(LifetimeTest, BadDescriptorsAndMetadataAreNamed) {
    BigWrite setup(GetParam());
    Engine& a = *setup.pair.a;
    const LocalDescriptor from = setup.source.local(0, 64);
    const RemoteDescriptor to{setup.target.address(), 64, &setup.remote};
    auto prepare = [&](LocalDescriptor local, RemoteDescriptor remote, const char* agent = "beta") {
        a.prepare(Operation::write, {&local, 1}, {&remote, 1}, agent, std::nullopt);
    };
    LocalDescriptor long_local = setup.source.local(BigWrite::size - 10, 64);
    LocalDescriptor wrapping = setup.source.local(16, ~std::uint64_t{0} - 10);
    LocalDescriptor unregistered{from.address, from.length, nullptr};
    RemoteDescriptor before{to.address - 1, 64, &setup.remote};
    RemoteDescriptor shorter{to.address, 63, &setup.remote};
    expect_error(Status::invalid_param, "outside its registration", [&] { prepare(long_local, to); });
    expect_error(Status::invalid_param, "outside its registration", [&] { prepare(wrapping, to); });
    expect_error(Status::invalid_param, "not registered", [&] { prepare(unregistered, to); });
    expect_error(Status::invalid_param, "remote range", [&] { prepare(from, before); });
    expect_error(Status::invalid_param, "63", [&] { prepare(from, shorter); });
    expect_error(Status::not_found, "nobody", [&] { prepare(from, to, "nobody"); });

    const std::string info = setup.pair.b->connection_info();
    const std::string memory = setup.pair.b->memory_metadata(*setup.target.region);
    auto load_memory = [&](const std::string& bytes) {
        a.load_remote_memory("beta", bytes, setup.target.address(), BigWrite::size);
    };
    for (std::size_t cut = 0; cut < memory.size(); ++cut)
        EXPECT_THROW(load_memory(memory.substr(0, cut)), Error) << cut;
    for (std::size_t cut = 0; cut < info.size(); ++cut) {
        EXPECT_THROW(a.load_connection_info("beta", info.substr(0, cut)), Error) << cut;
    }
    for (std::size_t bit = 0; bit < 8 * memory.size(); ++bit) {
        std::string flipped = memory;
        flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
        EXPECT_THROW(load_memory(flipped), Error) << "bit " << bit;
    }
    std::string newer = memory;
    newer[5] = 99;
    expect_error(Status::mismatch, "version 99", [&] { load_memory(newer); });
    expect_error(Status::mismatch, "made by", [&] { a.load_connection_info("gamma", info); });
    expect_error(Status::mismatch, "cover",
                 [&] { a.load_remote_memory("beta", memory, setup.target.address(), BigWrite::size + 1); });
    // Nothing was lost by all that.
    EXPECT_EQ(setup.pair.run(*setup.transfer), Status::ok);
    EXPECT_TRUE(setup.target.bytes == setup.source.bytes);
    setup.pair.a->release(setup.transfer);
}

/// A beta in a process of its own, which serves until it is killed.
struct RemoteBeta {
    explicit RemoteBeta(const Fabric& fabric) {
        int to_parent[2];
        EXPECT_EQ(pipe(to_parent), 0);
        pid = fork();
        if (pid == 0) serve(fabric, to_parent[1]);
        close(to_parent[1]);
        info = receive(to_parent[0]);
        memory = receive(to_parent[0]);
        address = std::stoull(receive(to_parent[0]));
        close(to_parent[0]);
    }
    ~RemoteBeta() { kill_now(); }
    void kill_now() {
        if (pid <= 0) return;
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
        remove_shared_memory_of(pid);
        pid = 0;
    }
    [[noreturn]] static void serve(const Fabric& fabric, int fd) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const auto engine = make_engine("beta", fabric);
        const Buffer buffer(*engine, size);
        for (const std::string& part : {engine->connection_info(), engine->memory_metadata(*buffer.region),
                                        std::to_string(buffer.address())}) {
            const auto length = static_cast<std::uint32_t>(part.size());
            if (write(fd, &length, sizeof(length)) < 0 || write(fd, part.data(), part.size()) < 0) _exit(1);
        }
        for (;;)
            engine->progress();
    }
    static std::string receive(int fd) {
        std::uint32_t length = 0;
        EXPECT_EQ(read(fd, &length, sizeof(length)), static_cast<ssize_t>(sizeof(length)));
        std::string part(length, '\0');
        EXPECT_EQ(read(fd, part.data(), length), static_cast<ssize_t>(length));
        return part;
    }
    static constexpr std::size_t size = 1 << 20;
    pid_t pid = 0;
    std::string info, memory;
    std::uint64_t address = 0;
};

/// tcp only: shm does not look at keys (docs/gotchas.md), and its peers that die have tests of their own
/// (fault-peers).
class NetworkTest : public testing::TestWithParam<Fabric> {};

TEST_P(NetworkTest, TheKeyOfDeregisteredMemoryIsDead) {
    BigWrite setup(GetParam());
    ASSERT_EQ(setup.pair.run(*setup.transfer), Status::ok);
    setup.pair.b->deregister_memory(setup.target.region);
    std::fill(setup.target.bytes.begin(), setup.target.bytes.end(), std::uint8_t{0});
    Status status = setup.pair.a->post(*setup.transfer);
    ASSERT_TRUE(setup.pair.until(
        [&] { return (status = setup.pair.a->poll(*setup.transfer)) != Status::in_progress; }));
    EXPECT_NE(status, Status::ok);
    EXPECT_EQ(std::count(setup.target.bytes.begin(), setup.target.bytes.end(), 0),
              static_cast<long>(setup.target.bytes.size()));
    setup.pair.a->release(setup.transfer);
}

/// The peer keeps what was published first; the same range is registered again, and again.
TEST_P(NetworkTest, TheOldKeyOfARangeThatIsRegisteredAnewIsDead) {
    constexpr std::size_t size = 4096;
    EnginePair pair(GetParam(), GetParam(), {{"keep_keys", "off"}});
    Buffer source(*pair.a, size), target(*pair.b, size);
    fill_pattern(source.bytes, 5);
    const auto old = pair.publish(target);
    const auto write_with = [&](const std::shared_ptr<RemoteRegion>& key) {
        const LocalDescriptor from = source.local(0, size);
        const RemoteDescriptor to{target.address(), size, &key};
        Transfer* transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
        const Status status = pair.run(*transfer);
        pair.a->release(transfer);
        return status;
    };
    ASSERT_EQ(write_with(old), Status::ok);
    for (int life = 0; life < 3; ++life) {
        pair.b->deregister_memory(target.region);
        target.region = pair.b->register_memory(target.address(), size, 0);
        const auto current = pair.publish(target);
        for (std::size_t i = 0; i < old->keys.size(); ++i)
            EXPECT_NE(old->keys[i].key, current->keys[i].key);
        std::fill(target.bytes.begin(), target.bytes.end(), std::uint8_t{0});
        EXPECT_NE(write_with(old), Status::ok);
        EXPECT_EQ(target.bytes, std::vector<std::uint8_t>(size)) << "a dead key has written";
        EXPECT_EQ(write_with(current), Status::ok) << "an error with one key spoils the next";
        EXPECT_TRUE(target.bytes == source.bytes);
    }
}

/// Whoever breaks a connection takes along what else is under way on it, such as the question whether the
/// peer is there: that says nothing of the peer.
TEST_P(NetworkTest, RefusedWritesInARowDoNotMakeAPeerGone) {
    constexpr std::size_t size = 4096;
    EnginePair pair(GetParam(), GetParam(), {{"keep_keys", "off"}});
    Buffer source(*pair.a, size), target(*pair.b, size);
    const auto old = pair.publish(target);
    const LocalDescriptor from = source.local(0, size);
    const RemoteDescriptor to{target.address(), size, &old};
    Transfer* transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", std::nullopt);
    ASSERT_EQ(pair.run(*transfer), Status::ok);
    pair.b->deregister_memory(target.region);
    for (int i = 0; i < 200; ++i) {
        EXPECT_NE(pair.run(*transfer), Status::ok);
        ASSERT_NE(report_of(*pair.a, "beta").state, PeerState::gone) << "after " << i + 1 << " writes";
    }
    pair.a->release(transfer);
}

TEST_P(NetworkTest, AKilledPeerEndsItsTransfersAndNobodyElses) {
    const Fabric fabric = GetParam();
    RemoteBeta beta(fabric);
    const auto a = make_engine("alpha", fabric, {{"connect_timeout_ms", "2000"}});
    const auto gamma = make_engine("gamma", fabric);
    a->load_connection_info("beta", beta.info);
    a->load_connection_info("gamma", gamma->connection_info());
    Buffer source(*a, RemoteBeta::size);
    Buffer other(*gamma, RemoteBeta::size);
    fill_pattern(source.bytes, 21);
    const auto dead = a->load_remote_memory("beta", beta.memory, beta.address, RemoteBeta::size);
    const auto alive = a->load_remote_memory("gamma", gamma->memory_metadata(*other.region), other.address(),
                                             RemoteBeta::size);
    const LocalDescriptor from = source.local(0, RemoteBeta::size);
    const RemoteDescriptor to_dead{beta.address, RemoteBeta::size, &dead};
    const RemoteDescriptor to_alive{other.address(), RemoteBeta::size, &alive};
    Transfer* doomed = a->prepare(Operation::write, {&from, 1}, {&to_dead, 1}, "beta", std::nullopt);
    Transfer* healthy = a->prepare(Operation::write, {&from, 1}, {&to_alive, 1}, "gamma", std::nullopt);
    auto run = [&](Transfer& transfer) {
        Status status = a->post(transfer);
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(15);
        while (status == Status::in_progress && std::chrono::steady_clock::now() < end) {
            gamma->progress();
            status = a->poll(transfer);
        }
        return status;
    };
    ASSERT_EQ(run(*doomed), Status::ok);
    ASSERT_EQ(run(*healthy), Status::ok);
    ASSERT_NE(a->post(*doomed), Status::backend);
    beta.kill_now();
    std::fill(other.bytes.begin(), other.bytes.end(), std::uint8_t{0});
    EXPECT_EQ(run(*healthy), Status::ok);
    EXPECT_TRUE(other.bytes == source.bytes);
    Status status = Status::in_progress;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(15);
    while (status == Status::in_progress && std::chrono::steady_clock::now() < end)
        status = a->poll(*doomed);
    // The round may have ended before the kill; the next one cannot.
    if (status == Status::ok) status = run(*doomed);
    EXPECT_EQ(status, Status::remote_disconnect);
    EXPECT_EQ(run(*doomed), Status::remote_disconnect);
    EXPECT_EQ(run(*healthy), Status::ok);
    a->release(doomed);
    a->release(healthy);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, LifetimeTest,
                         testing::ValuesIn(fabrics({Fabric{"tcp", 1, false}, Fabric{"tcp", 4, false},
                                                    Fabric{"tcp", 4, true}, Fabric{"shm", 1, false},
                                                    Fabric{"shm", 4, true}})),
                         fabric_name);

INSTANTIATE_TEST_SUITE_P(Fabrics, NetworkTest,
                         testing::ValuesIn(fabrics({Fabric{"tcp", 1, false}, Fabric{"tcp", 4, false},
                                                    Fabric{"tcp", 4, true}})),
                         fabric_name);

}  // namespace
}  // namespace railyard::test
