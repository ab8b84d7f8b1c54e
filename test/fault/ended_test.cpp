// Peers over shm whose processes end while others' answers stand behind theirs on one endpoint.
#include <signal.h>

#include <cstdlib>

#include "few_files.h"
#include "log_lines.h"
#include "peer_faults.h"
#include "sanitized.h"

namespace railyard::test {
namespace ended_peers {

class EndedPeers : public PeerFaults {
  protected:
    /// Where the kernel copies past the provider, it may be through without the peer.
    static bool needs_the_peer() { return std::getenv("FI_SHM_DISABLE_CMA") != nullptr; }

    struct Two {
        std::unique_ptr<FarSide> victim, healthy;
        Transfer *write = nullptr, *other = nullptr;  ///< to each, and carried out once
    };
    /// The victim is stopped then.
    void meet(Two& two, const ParamMap& params = {}) {
        start(params);
        two.victim = target("beta");
        two.healthy = target("gamma");
        two.write = two.victim->prepare(Operation::write, size);
        two.other = two.healthy->prepare(Operation::write, size);
        ASSERT_EQ(run(*two.write), Status::ok);
        ASSERT_EQ(run(*two.other), Status::ok);
        two.victim->process->send_signal(SIGSTOP);
    }

    /// A WRITE to a peer that is stopped under it, then `part` from it, then it is killed.
    void kill_after(const std::function<void()>& part) {
        Two two;
        ASSERT_NO_FATAL_FAILURE(meet(two));
        const auto& [victim, healthy, write, other] = two;
        const Status posted = engine_->post(*write);
        part();
        drive(milliseconds(200));
        if (needs_the_peer()) {
            EXPECT_EQ(engine_->poll(*write), Status::in_progress);
        }
        const Status beside = engine_->post(*other);
        victim->process->send_signal(SIGKILL);
        const Status ended = posted == Status::in_progress ? wait(*write, milliseconds(6000)) : posted;
        EXPECT_NE(ended, Status::in_progress) << "its process has ended";
        if (needs_the_peer()) {
            EXPECT_EQ(ended, Status::remote_disconnect);
        }
        EXPECT_EQ(beside == Status::in_progress ? wait(*other, milliseconds(6000)) : beside, Status::ok);
        EXPECT_EQ(run(*other), Status::ok);
        EXPECT_TRUE(healthy->same_bytes());
    }
};

TEST_P(EndedPeers, OneThatWasDisconnectedBeforeEndsItsTransfersAndNobodyElses) {
    kill_after([&] { engine_->disconnect("beta"); });
}

TEST_P(EndedPeers, OneThatWasReplacedBeforeEndsItsTransfersAndNobodyElses) {
    std::unique_ptr<FarSide> restarted;
    kill_after([&] { restarted = target("beta"); });
    EXPECT_EQ(run(*restarted->prepare(Operation::write, size)), Status::ok);
    EXPECT_TRUE(restarted->same_bytes());
    restarted.reset();
}

/// Another endpoint takes files of its own.
TEST_P(EndedPeers, OneThatEndsForWantOfFilesForAnotherEndpointTakesNobodyElsesWay) {
    if (sanitized) GTEST_SKIP() << "its looks at objects need descriptors of their own";
    if (!needs_the_peer()) GTEST_SKIP() << "nothing stays with the provider";
    const LogLines lines(log::Level::info);
    Two two;
    ASSERT_NO_FATAL_FAILURE(meet(two, {{"connect_timeout_ms", "2000"}}));
    const auto& [victim, healthy, write, other] = two;
    ASSERT_EQ(engine_->post(*write), Status::in_progress);
    {
        const FewFiles few(0);
        victim->process->send_signal(SIGKILL);
        EXPECT_EQ(wait(*write), Status::remote_disconnect);
        EXPECT_TRUE(until([] { return LogLines::contain("no new endpoint"); })) << "nothing was tested";
    }
    const auto limit = Clock::now() + milliseconds(10'000);
    Status status = run(*other);
    while (status == Status::remote_disconnect && Clock::now() < limit)
        status = run(*other);
    EXPECT_EQ(status, Status::ok);
    EXPECT_TRUE(healthy->same_bytes());
}

INSTANTIATE_TEST_SUITE_P(SharedMemory, EndedPeers,
                         testing::Values(Fabric{"shm", 1, true}, Fabric{"shm", 1, false},
                                         Fabric{"shm", 2, false}),
                         fabric_name);

}  // namespace ended_peers
}  // namespace railyard::test
