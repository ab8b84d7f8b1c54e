// Connections that the network has forgotten while they were idle: what is sent over them is lost in silence.
#include <algorithm>

#include "net_faults.h"
#include "wire.h"

namespace railyard::test {
namespace {

struct Idle {
    const char* name;
    std::size_t bytes;   ///< of the transfer
    bool keeps_handles;  ///< prepared transfers, so that the peer is asked now and then
    bool progress_thread;
};
class Forgotten : public NetFaults, public testing::WithParamInterface<Idle> {
  protected:
    /// Nothing is prepared to it afterwards.
    void release_all(FarSide& peer) {
        for (Transfer* transfer : peer.transfers)
            engine_->release(transfer);
        peer.transfers.clear();
    }
};

TEST_P(Forgotten, AreReplacedUnderTheNextTransferWhichSucceeds) {
    if (!wire_is_possible()) GTEST_SKIP() << "needs /dev/net/tun (kernel module tun)";
    Wire wire({namespace_of("a"), namespace_of("b")}, "e3", {});
    ASSERT_TRUE(bring_up("e3"));
    start("e3", GetParam().progress_thread, {{"peer_timeout_ms", "5000"}}, 2);
    const auto b = peer("b", 2);
    b->process->load("alpha", engine_->connection_info());
    for (int round = 0; round < 8; ++round)
        ASSERT_EQ(run(*b->prepare(Operation::write, GetParam().bytes, 0, "before")), Status::ok);
    EXPECT_TRUE(until([&] { return b->process->notifications().size() >= 1; }));
    drive(milliseconds(200));
    if (!GetParam().keeps_handles) release_all(*b);
    wire.forget();
    drive(milliseconds(1200));

    fill_pattern(b->near->bytes, 9);
    Transfer* const next = b->prepare(Operation::write, flight_size);
    Transfer* const small = b->prepare(Operation::write, GetParam().bytes, 0, "after");
    const auto posted = Clock::now();
    const Status told = engine_->post(*small);
    EXPECT_EQ(run(*next), Status::ok);
    EXPECT_EQ(told == Status::in_progress ? wait(*small) : told, Status::ok);
    std::fprintf(stderr, "both through after %lld ms; %llu packets lost\n",
                 static_cast<long long>(since(posted).count()),
                 static_cast<unsigned long long>(wire.counts().lost));
    EXPECT_GT(wire.counts().lost, 0u);
    EXPECT_TRUE(b->same_bytes());
    int times = 0;
    EXPECT_TRUE(until([&] {
        for (const std::string& message : b->process->notifications())
            times += message == "alpha:after";
        return times > 0;
    }));
    EXPECT_EQ(times, 1);
    EXPECT_TRUE(until([&] { return state_of("b") == PeerState::ready; }));
}

using ForgottenAlone = NetFaults;

TEST_F(ForgottenAlone, AreReplacedUnderANotificationWhichArrives) {
    if (!wire_is_possible()) GTEST_SKIP() << "needs /dev/net/tun (kernel module tun)";
    Wire wire({namespace_of("a"), namespace_of("b")}, "e3", {});
    ASSERT_TRUE(bring_up("e3"));
    start("e3", false);
    const auto b = peer("b");
    b->process->load("alpha", engine_->connection_info());
    const auto arrives = [&](const std::string& message) {
        engine_->send_notification("b", message);
        return until([&] {
            const Words told = b->process->notifications();
            return std::count(told.begin(), told.end(), "alpha:" + message) == 1;
        });
    };
    ASSERT_TRUE(arrives("before"));
    drive(milliseconds(200));
    wire.forget();
    const auto sent = Clock::now();
    EXPECT_TRUE(arrives("after"));
    std::fprintf(stderr, "there after %lld ms\n", static_cast<long long>(since(sent).count()));
    EXPECT_LT(since(sent), milliseconds(3 * patience_ms));
}

INSTANTIATE_TEST_SUITE_P(Faults, Forgotten,
                         testing::Values(Idle{"large_released", flight_size, false, true},
                                         Idle{"large_prepared", flight_size, true, false},
                                         Idle{"small_released", 64, false, false},
                                         Idle{"small_prepared", 64, true, true}),
                         [](const auto& idle) { return idle.param.name; });

}  // namespace
}  // namespace railyard::test
