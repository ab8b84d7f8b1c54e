// Peers over shm whose processes end while others' answers stand behind theirs on one endpoint.
#include <signal.h>

#include <cstdlib>

#include "peer_faults.h"

namespace railyard::test {
namespace ended_peers {

class EndedPeers : public PeerFaults {
  protected:
    /// Where the kernel copies past the provider, it may be through without the peer.
    static bool needs_the_peer() { return std::getenv("FI_SHM_DISABLE_CMA") != nullptr; }

    /// A WRITE to a peer that is stopped under it, then `part` from it, then it is killed.
    void kill_after(const std::function<void()>& part) {
        start();
        const auto victim = target("beta"), healthy = target("gamma");
        Transfer* const write = victim->prepare(Operation::write, size);
        Transfer* const other = healthy->prepare(Operation::write, size);
        ASSERT_EQ(run(*write), Status::ok);
        ASSERT_EQ(run(*other), Status::ok);
        victim->process->send_signal(SIGSTOP);
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

INSTANTIATE_TEST_SUITE_P(SharedMemory, EndedPeers,
                         testing::Values(Fabric{"shm", 1, true}, Fabric{"shm", 1, false},
                                         Fabric{"shm", 2, false}),
                         fabric_name);

}  // namespace ended_peers
}  // namespace railyard::test
