// Peers that die, hang and come back: each is a process of its own, over tcp and on the simulated EFA
// machine.
#include <signal.h>

#include <algorithm>

#include "few_files.h"
#include "log_lines.h"
#include "peer_faults.h"
#include "sanitized.h"
#include "simulated_machine.h"

namespace railyard::test {
namespace {

/// Peers that nothing but a probe tells of: elsewhere what was sent to them before arrives once they are
/// back.
class SilentPeers : public PeerFaults {};

/// What holds over shm, too, where a peer that only hangs cannot be given up.
class KilledPeers : public PeerFaults {};

/// Peers whose processes go on, and whose NICs are cut off.
class CutOffPeers : public PeerFaults {
  protected:
    /// With `write` in flight nothing passes; whatever `end` then does to it, it changes none of the target's
    /// bytes any more, also when all is well again.
    void cut_off_under(Transfer& write, FarSide& peer, const std::function<void()>& end) {
        ASSERT_TRUE(carried_out(write));
        fill_pattern(peer.near->bytes, 4);  // what lands now shows
        cut_off();
        end();
        const std::uint32_t bytes = peer.process->checksum(0);
        cluster().reset();
        drive(milliseconds(300));
        EXPECT_EQ(peer.process->checksum(0), bytes) << "written to afterwards";
        Transfer* next = peer.prepare(Operation::write, size);
        EXPECT_TRUE(carried_out(*next)) << "never taken back";
        EXPECT_TRUE(peer.same_bytes());
    }
};

TEST_P(KilledPeers, AKilledPeerEndsItsTransfersInFlightAndNobodyElses) {
    cluster().set("timeout_ms=200");
    start();
    // Each READ has bytes of its own: two operations that put data to one place have no order.
    const std::size_t reads = 4;
    const auto victim = target("beta", (1 + reads) * size), healthy = target("gamma");
    std::vector<Transfer*> flight;
    for (std::size_t i = 1; i <= reads; ++i) {
        flight.push_back(victim->prepare(Operation::write, size));
        flight.push_back(victim->prepare(Operation::read, size, i * size));
    }
    Transfer* other = healthy->prepare(Operation::write, size);
    ASSERT_EQ(run(*flight[0]), Status::ok);
    ASSERT_EQ(run(*other), Status::ok);
    for (Transfer* transfer : flight)
        ASSERT_NE(engine_->post(*transfer), Status::remote_disconnect);
    victim->process->send_signal(SIGKILL);
    const auto killed = Clock::now();
    // What is in flight ends, reposts as well, until one has seen that nobody is there.
    for (Transfer* transfer : flight) {
        Status status = wait(*transfer);
        while (status == Status::ok && Clock::now() - killed < std::chrono::seconds(20))
            status = run(*transfer);
        EXPECT_EQ(status, Status::remote_disconnect);
        EXPECT_EQ(run(*other), Status::ok);
    }
    const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - killed);
    RecordProperty("death_to_error_ms", static_cast<int>(took.count()));
    // On fabric efa an operation whose answer was lost has no other end than peer_timeout_ms.
    const bool answers_count = std::string(GetParam().provider) == "efa";
    EXPECT_LT(took, milliseconds(answers_count ? 12'000 : 4000))
        << "200 ms beyond the provider's word are promised, on a free machine";
    EXPECT_EQ(run(*other), Status::ok);
}

TEST_P(KilledPeers, AKilledIdlePeerIsFoundOut) {
    cluster().set("timeout_ms=200");
    start({{"keepalive_ms", "200"}});
    const auto victim = target("beta");
    Transfer* transfer = victim->prepare(Operation::write, 4096);
    EXPECT_EQ(state_of("beta"), PeerState::unknown);
    ASSERT_EQ(run(*transfer), Status::ok);
    EXPECT_TRUE(until([&] { return state_of("beta") == PeerState::ready; }));
    victim->process->send_signal(SIGKILL);
    const auto killed = Clock::now();
    EXPECT_TRUE(until([&] { return state_of("beta") == PeerState::gone; }));
    EXPECT_LT(Clock::now() - killed, milliseconds(6000))
        << "1 s is promised, on a machine with nothing else to do";
    EXPECT_EQ(engine_->post(*transfer), Status::remote_disconnect);
}

/// Over shm, where nothing but the look at its process tells of an end.
class WatchedPeers : public PeerFaults {};

TEST_P(WatchedPeers, OneThatCouldNotBeWatchedForWantOfFilesIsWatchedOnceThereAreSome) {
    if (sanitized) GTEST_SKIP() << "its looks at objects need descriptors of their own";
    const LogLines lines(log::Level::info);
    start({{"keepalive_ms", "0"}});
    // None is disconnected: what the engine gives back of it, it may give back while there are to be few.
    FarSide other(*engine_, GetParam(), "gamma", size), victim(*engine_, GetParam(), "beta", size);
    for (const unsigned left : {0u, 1u}) {
        LogLines::clear();
        {
            const FewFiles few(left);
            (left == 0 ? other : victim).meet();
            drive(milliseconds(300));  // it looks again in vain
        }
        EXPECT_EQ(LogLines::count("cannot be watched yet"), 1) << left;
        EXPECT_TRUE(until([] { return LogLines::contain("is watched now"); }, milliseconds(3000))) << left;
    }
    Transfer* transfer = victim.prepare(Operation::write, 4096);
    ASSERT_EQ(run(*transfer), Status::ok);
    victim.process->send_signal(SIGKILL);
    EXPECT_TRUE(until([&] { return state_of("beta") == PeerState::gone; }, milliseconds(6000)));
    EXPECT_EQ(engine_->post(*transfer), Status::remote_disconnect);
}

/// Over tcp it takes nothing any more, and says nothing.
class KilledTcpPeers : public PeerFaults {
  protected:
    void kill_and_post(milliseconds lifetime) {
        start({{"peer_timeout_ms", "30000"}, {"connect_timeout_ms", "30000"}});
        const auto victim = target("beta");
        Transfer* transfer = victim->prepare(Operation::write, size);
        ASSERT_EQ(run(*transfer), Status::ok);
        drive(lifetime);
        victim->process->send_signal(SIGKILL);
        const auto killed = Clock::now();
        drive(milliseconds(100));  // its connections are known to be closed
        EXPECT_EQ(run(*transfer), Status::remote_disconnect);
        EXPECT_LT(Clock::now() - killed, milliseconds(10'000)) << "1 s, or a little more, is promised";
    }
};

TEST_P(KilledTcpPeers, APostBeforeItIsFoundOutEndsInTime) {
    kill_and_post(milliseconds(1500));  // it has answered a probe
}

TEST_P(KilledTcpPeers, APostToOneThatWasNeverAskedEndsInTime) {
    kill_and_post(milliseconds(0));
}

TEST_P(PeerFaults, WithoutKeepaliveAnIdlePeerIsLeftInPeace) {
    start({{"keepalive_ms", "0"}});
    const auto peer = target("beta");
    Transfer* transfer = peer->prepare(Operation::write, 4096);
    ASSERT_EQ(run(*transfer), Status::ok);
    peer->process->send_signal(SIGKILL);
    EXPECT_FALSE(until([&] { return state_of("beta") == PeerState::gone; }, milliseconds(600)));
}

TEST_P(KilledPeers, ANewInstanceUnderTheNameWorksAtOnceAndTheOldMetadataNoMore) {
    cluster().set("timeout_ms=200");
    start();
    auto first = target("beta");
    Transfer* old = first->prepare(Operation::write, size);
    ASSERT_EQ(run(*old), Status::ok);
    first->process->send_signal(SIGKILL);
    const auto second = target("beta");
    EXPECT_EQ(engine_->post(*old), Status::remote_disconnect);
    expect_error(Status::remote_disconnect, "earlier instance",
                 [&] { first->prepare(Operation::write, 64); });
    Transfer* transfer = second->prepare(Operation::write, size);
    EXPECT_EQ(run(*transfer), Status::ok);
    EXPECT_TRUE(second->same_bytes());
}

TEST_P(PeerFaults, AVanishedPeerIsGivenUpAndTakenBack) {
    start({{"peer_timeout_ms", "400"}});
    const auto peer = target("beta");
    Transfer* read = peer->prepare(Operation::read, size);
    vanish_under(*read, *peer, [&] {
        const auto stopped = Clock::now();
        EXPECT_EQ(run(*read), Status::remote_disconnect);
        EXPECT_GE(Clock::now() - stopped, milliseconds(400));
    });
    Status again = Status::remote_disconnect;
    EXPECT_TRUE(until([&] { return (again = run(*read)) != Status::remote_disconnect; }))
        << "never taken back";
    EXPECT_EQ(again, Status::ok);
    EXPECT_TRUE(peer->same_bytes());
}

TEST_P(PeerFaults, AVanishedPeerThatIsDisconnectedKeepsNoTransfers) {
    start({{"peer_timeout_ms", "400"}});
    const auto peer = target("beta");
    Transfer* read = peer->prepare(Operation::read, size);
    vanish_under(*read, *peer, [&] {
        ASSERT_EQ(engine_->post(*read), Status::in_progress);
        engine_->disconnect("beta");
        EXPECT_EQ(wait(*read), Status::remote_disconnect);
    });
}

TEST_P(PeerFaults, ATransferPastItsTimeEndsAndTouchesNothingAfterwards) {
    start({{"xfer_timeout_ms", "300"}, {"connect_timeout_ms", "20000"}});
    const auto peer = target("beta");
    Transfer* read = peer->prepare(Operation::read, size);
    vanish_under(*read, *peer, [&] {
        const auto posted = Clock::now();
        EXPECT_EQ(run(*read), Status::canceled);
        EXPECT_GE(Clock::now() - posted, milliseconds(300));
    });
}

TEST_P(PeerFaults, AReleasedTransferTouchesNothingAfterwards) {
    start({{"connect_timeout_ms", "20000"}});
    const auto peer = target("beta");
    Transfer* read = peer->prepare(Operation::read, size);
    vanish_under(*read, *peer, [&] { release(read, *peer); });
}

TEST_P(CutOffPeers, AWritePastItsTimeEndsAndChangesNothingAfterwards) {
    start({{"xfer_timeout_ms", "300"}, {"connect_timeout_ms", "20000"}});
    const auto peer = target("beta");
    Transfer* write = peer->prepare(Operation::write, size);
    cut_off_under(*write, *peer, [&] { EXPECT_EQ(run(*write), Status::canceled); });
}

TEST_P(CutOffPeers, AReleasedWriteChangesNothingAfterwards) {
    start({{"connect_timeout_ms", "20000"}});
    const auto peer = target("beta");
    Transfer* write = peer->prepare(Operation::write, size);
    cut_off_under(*write, *peer, [&] { release(write, *peer); });
}

/// A transfer whose data have been written, and whose notification finds nobody.
class LastMessages : public PeerFaults {
  protected:
    /// `end` has to end it, or to release it.
    void lose_message(const std::function<void(Transfer&)>& end) {
        const auto peer = target("beta");
        Transfer* message = engine_->prepare(Operation::write, {}, {}, "beta", "arrived");
        ASSERT_TRUE(carried_out(*message));
        vanish(*peer);
        const auto start = Clock::now();
        end(*message);
        EXPECT_LT(Clock::now() - start, milliseconds(8000));
        return_again(*peer);
        EXPECT_TRUE(until([&] { return run(*peer->prepare(Operation::write, 4096)) == Status::ok; }))
            << "never taken back";
    }
};

TEST_P(LastMessages, APeerThatVanishesUnderOneIsGivenUp) {
    start({{"peer_timeout_ms", "400"}, {"connect_timeout_ms", "20000"}});
    lose_message([&](Transfer& message) { EXPECT_EQ(run(message), Status::remote_disconnect); });
}

TEST_P(LastMessages, OnePastItsTimeIsCanceled) {
    start({{"xfer_timeout_ms", "300"}, {"connect_timeout_ms", "20000"}});
    lose_message([&](Transfer& message) { EXPECT_EQ(run(message), Status::canceled); });
}

/// Replaced senders lose what has left and has not been taken yet.
TEST_P(LastMessages, OthersArriveWholeAndOnceWhenARailIsInterrupted) {
    start({{"connect_timeout_ms", "20000"}});
    const auto stopped = target("beta"), reader = target("gamma");
    Transfer* read = stopped->prepare(Operation::read, size);
    ASSERT_EQ(run(*read), Status::ok);
    ASSERT_EQ(run(*reader->prepare(Operation::write, 4096)), Status::ok);
    stopped->process->send_signal(SIGSTOP);
    reader->process->send_signal(SIGSTOP);
    const std::size_t count = 20;
    for (std::size_t i = 0; i < count; ++i)
        engine_->send_notification("gamma", std::to_string(i) + std::string(9000, 'x'));
    drive(milliseconds(50));
    ASSERT_EQ(engine_->post(*read), Status::in_progress);
    drive(milliseconds(20));
    stopped->transfers.clear();
    engine_->release(read);
    reader->process->send_signal(SIGCONT);
    std::vector<std::string> got;
    const auto arrived = [&] {
        for (const std::string& text : reader->process->notifications())
            got.push_back(text.substr(0, text.find('x')));
        return got.size() >= count;
    };
    EXPECT_TRUE(until(arrived)) << got.size() << " of " << count;
    drive(milliseconds(300));
    arrived();
    std::vector<std::string> expected;
    for (std::size_t i = 0; i < count; ++i)
        expected.push_back("alpha:" + std::to_string(i));
    std::sort(got.begin(), got.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(got, expected);
    stopped->process->send_signal(SIGCONT);
}

TEST_P(LastMessages, OneIsReleasedInFlight) {
    start({{"connect_timeout_ms", "20000"}});
    lose_message([&](Transfer& message) {
        ASSERT_EQ(engine_->post(message), Status::in_progress);
        engine_->release(&message);
    });
}

TEST_P(PeerFaults, AStoppedPeerIsLoadedAndConnectedAtOnce) {
    start();
    FarSide peer(*engine_, GetParam(), "beta", 4096);
    peer.process->send_signal(SIGSTOP);
    const auto begin = Clock::now();
    peer.meet();
    engine_->connect("beta");
    EXPECT_LT(Clock::now() - begin, milliseconds(3000)) << "waited for it";
    peer.process->send_signal(SIGCONT);
    EXPECT_EQ(run(*peer.prepare(Operation::write, 4096)), Status::ok);
    EXPECT_TRUE(peer.same_bytes());
}

TEST_P(PeerFaults, WhoTakesItsTimeToAnswerAtAllIsNotGone) {
    start({{"keepalive_ms", "100"}});
    const auto peer = target("beta", 4096);
    peer->process->send_signal(SIGSTOP);
    Transfer* transfer = peer->prepare(Operation::write, 4096);
    drive(milliseconds(1200));
    EXPECT_NE(state_of("beta"), PeerState::gone) << "connect_timeout_ms is 5000";
    peer->process->send_signal(SIGCONT);
    EXPECT_EQ(run(*transfer), Status::ok);
    EXPECT_TRUE(peer->same_bytes());
}

TEST_P(SilentPeers, PostsHastenTheWayBack) {
    start({{"peer_timeout_ms", "500"}});
    const auto peer = target("beta", 4096);
    Transfer* transfer = peer->prepare(Operation::write, 4096);
    const auto go_and_return = [&] {
        EXPECT_TRUE(carried_out(*transfer));
        vanish(*peer);
        EXPECT_EQ(run(*transfer), Status::remote_disconnect);
        EXPECT_TRUE(until([&] { return state_of("beta") == PeerState::gone; }));
        drive(milliseconds(2000));  // probes are seldom by now
        const auto wanted = Clock::now();
        EXPECT_TRUE(until(
            [&] { return run(*transfer) == Status::ok || Clock::now() - wanted > milliseconds(1400); }));
        return_again(*peer);
        const auto back = Clock::now();
        EXPECT_TRUE(carried_out(*transfer));
        const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - back);
        RecordProperty("back_to_success_ms", static_cast<int>(took.count()));
        return took;
    };
    // The median of three, as a probe of each second comes at the right time now and then.
    int soon = 0, late = 0;
    while (soon < 2 && late < 2)
        ++(go_and_return() < milliseconds(500) ? soon : late);
    EXPECT_EQ(soon, 2) << "a probe each 0.05 to 0.1 s";
    EXPECT_TRUE(peer->same_bytes());
}

const auto networks =
    testing::Values(Fabric{"tcp", 1, true}, Fabric{"tcp", 1, false}, Fabric{"tcp", 3, true},
                    Fabric{"tcp-msg", 1, true}, Fabric{"tcp-msg", 2, false}, Fabric{"efa-direct", 1, true},
                    Fabric{"efa-direct", 4, false}, Fabric{"efa", 2, true});

INSTANTIATE_TEST_SUITE_P(Fabrics, PeerFaults, networks, fabric_name);
INSTANTIATE_TEST_SUITE_P(Fabrics, KilledTcpPeers,
                         testing::Values(Fabric{"tcp", 1, true}, Fabric{"tcp", 1, false},
                                         Fabric{"tcp", 4, true}, Fabric{"tcp-msg", 1, true},
                                         Fabric{"tcp-msg", 2, false}),
                         fabric_name);
INSTANTIATE_TEST_SUITE_P(Fabrics, SilentPeers,
                         testing::Values(Fabric{"tcp", 1, true}, Fabric{"tcp", 3, false}), fabric_name);
INSTANTIATE_TEST_SUITE_P(Fabrics, LastMessages, networks, fabric_name);
INSTANTIATE_TEST_SUITE_P(Fabrics, CutOffPeers,
                         testing::Values(Fabric{"efa-direct", 1, true}, Fabric{"efa-direct", 4, false},
                                         Fabric{"efa", 2, true}),
                         fabric_name);
INSTANTIATE_TEST_SUITE_P(Fabrics, KilledPeers, networks, fabric_name);
INSTANTIATE_TEST_SUITE_P(SharedMemory, KilledPeers,
                         testing::Values(Fabric{"shm", 1, true}, Fabric{"shm", 2, false}), fabric_name);
INSTANTIATE_TEST_SUITE_P(SharedMemory, WatchedPeers,
                         testing::Values(Fabric{"shm", 1, true}, Fabric{"shm", 2, false}), fabric_name);

}  // namespace
}  // namespace railyard::test
