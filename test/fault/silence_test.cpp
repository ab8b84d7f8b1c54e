// When a peer that says nothing is given up: by who looks seldom, posts more and more, or has other peers
// that are in a bad way.
#include <netinet/in.h>
#include <signal.h>

#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/metadata.h"
#include "peers.h"

namespace railyard::test {
namespace {

/// A program without a progress thread that does something else for long, or one that was stopped.
class RareLooks : public testing::Test, protected Initiator {
  protected:
    static constexpr milliseconds patience{600};

    void meet() {
        const Fabric fabric{"tcp", 2, false};
        const std::string limit = std::to_string(patience.count());
        engine_ = make_engine("alpha", fabric, {{"peer_timeout_ms", limit}, {"connect_timeout_ms", limit}});
        peer_ = std::make_unique<FarSide>(*engine_, fabric, "beta", size);
        peer_->meet();
        transfer_ = peer_->prepare(Operation::read, size);
        ASSERT_TRUE(until([&] { return run(*transfer_) == Status::ok; }));
    }
    /// A transfer to a peer that is stopped is in flight, and was looked at some times.
    void leave_one_in_flight() {
        if (!peer_) meet();
        ASSERT_TRUE(transfer_);
        peer_->process->send_signal(SIGSTOP);
        ASSERT_EQ(engine_->post(*transfer_), Status::in_progress);
        drive(milliseconds(100));
    }

    static constexpr std::size_t size = std::size_t{4} << 20;
    std::unique_ptr<FarSide> peer_;
    Transfer* transfer_ = nullptr;
};

TEST_F(RareLooks, AfterLongAPeerHasTimeToShowThatItIsThere) {
    Status status = Status::remote_disconnect;
    for (int tries = 0; tries < 3 && status != Status::ok; ++tries) {  // it has 150 ms to wake up
        ASSERT_NO_FATAL_FAILURE(leave_one_in_flight());
        std::this_thread::sleep_for(2 * patience);
        EXPECT_EQ(engine_->poll(*transfer_), Status::in_progress) << "was given up unseen";
        peer_->process->send_signal(SIGCONT);
        status = wait(*transfer_);
        EXPECT_TRUE(status == Status::ok || until([&] { return run(*transfer_) == Status::ok; }));
    }
    EXPECT_EQ(status, Status::ok);
    EXPECT_TRUE(peer_->same_bytes());
}

TEST_F(RareLooks, APeerThatIsSilentIsGivenUpAllTheSame) {
    ASSERT_NO_FATAL_FAILURE(leave_one_in_flight());
    std::this_thread::sleep_for(2 * patience);
    const auto back = Clock::now();
    EXPECT_EQ(wait(*transfer_), Status::remote_disconnect);
    EXPECT_LT(Clock::now() - back, 2 * patience) << "what its socket held may have moved the transfer last";
    peer_->process->send_signal(SIGCONT);
}

TEST_F(RareLooks, RareOnesGiveASilentPeerUpAtTheSecond) {
    ASSERT_NO_FATAL_FAILURE(leave_one_in_flight());
    for (int i = 0; i < 2; ++i) {
        std::this_thread::sleep_for(2 * patience);
        engine_->progress();
    }
    EXPECT_EQ(wait(*transfer_, milliseconds(400)), Status::remote_disconnect);
    peer_->process->send_signal(SIGCONT);
}

TEST_F(RareLooks, ASilentPeerIsGivenUpAlthoughMoreAndMoreIsPosted) {
    ASSERT_NO_FATAL_FAILURE(leave_one_in_flight());
    const auto begin = Clock::now();
    std::vector<Transfer*> more;
    for (int i = 0; i < 30 && engine_->poll(*transfer_) == Status::in_progress; ++i) {
        more.push_back(peer_->prepare(Operation::read, 4096));
        if (engine_->post(*more.back()) == Status::remote_disconnect) break;
        drive(milliseconds(100));
    }
    EXPECT_EQ(wait(*transfer_, milliseconds(0)), Status::remote_disconnect);
    EXPECT_LT(Clock::now() - begin, 4 * patience);  // thirty rounds take five
    peer_->process->send_signal(SIGCONT);
}

/// Nobody listens at its first one, so that the others are looked at.
TEST_F(RareLooks, APeerWithAnAddressThatIsNoneHoldsNobodyUp) {
    ASSERT_NO_FATAL_FAILURE(meet());
    ConnectionInfo info = decode_connection(peer_->info);
    info.agent = "aaa";
    info.nonce ^= 1;
    info.host.clear();
    constexpr std::size_t port_at = offsetof(sockaddr_in, sin_port);
    info.rails[0].replace(port_at, 2, std::string("\0\1", 2));
    info.rails[1] = "x";
    engine_->load_connection_info("aaa", encode(info));
    engine_->send_notification("aaa", "there?");
    EXPECT_TRUE(until([&] { return report_of("aaa").failed > 0; }));
    ASSERT_NO_FATAL_FAILURE(leave_one_in_flight());
    EXPECT_EQ(wait(*transfer_, 5 * patience), Status::remote_disconnect);
    peer_->process->send_signal(SIGCONT);
}

}  // namespace
}  // namespace railyard::test
