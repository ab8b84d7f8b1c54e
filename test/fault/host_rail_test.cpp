// Peers on this host, past the fabric: which transfers go that way, that they are right, and how they end
// when it is gone. Each peer is a process of its own.
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>

#include "engine/metadata.h"
#include "engine/transfer.h"
#include "peers.h"
#include "simulated_machine.h"

namespace railyard::test {
namespace {

class HostPeers : public testing::TestWithParam<Fabric>, protected Initiator {
  protected:
    static constexpr std::size_t size = std::size_t{4} << 20;

    ~HostPeers() override { cluster().reset(); }
    void start(Fabric fabric, const ParamMap& params = {}) {
        has_thread_ = fabric.progress_thread;
        engine_ = make_engine("alpha", fabric, params);
    }
    std::unique_ptr<FarSide> target(const Fabric& fabric, const std::string& agent = "beta") {
        auto made = std::make_unique<FarSide>(*engine_, fabric, agent, size);
        made->meet();
        return made;
    }
    static bool has_nics() { return GetParam().provider.starts_with("efa"); }
    static bool goes_past_the_fabric(const Transfer& transfer) {
        return !transfer.routes.empty() && transfer.routes.front().rail->name() == "host";
    }
    static std::uint64_t moved(const Transfer& transfer) {
        const RailCounters counters = transfer.routes.front().rail->counters();
        return counters.bytes[0] + counters.bytes[1];
    }
};

TEST_P(HostPeers, BytesAndNotificationsAreThereAndSmallOnesNeedNoFabric) {
    start(GetParam());
    const auto peer = target(GetParam());
    for (const std::size_t length : {std::size_t{1}, std::size_t{4099}, std::size_t{200'001}}) {
        SCOPED_TRACE(length);
        Transfer* write = peer->prepare(Operation::write, length, 17, "there");
        Transfer* read = peer->prepare(Operation::read, length, 17);
        ASSERT_TRUE(goes_past_the_fabric(*write));
        fill_pattern(peer->near->bytes, static_cast<std::uint32_t>(length));
        const std::uint64_t before = moved(*write);
        ASSERT_EQ(run(*write), Status::ok);
        EXPECT_EQ(moved(*write) - before, length);
        Words heard;
        EXPECT_TRUE(until([&] { return !(heard = peer->process->notifications()).empty(); }));
        EXPECT_EQ(heard, (Words{"alpha:there"}));
        const std::vector<std::uint8_t> sent = peer->near->bytes;
        std::fill_n(peer->near->bytes.begin() + 17, length, std::uint8_t{0});
        EXPECT_EQ(engine_->post(*read), Status::ok) << "there is nothing to wait for";
        EXPECT_TRUE(peer->near->bytes == sent);
    }
    EXPECT_EQ(report_of("beta").on_host, 1u);
}

/// Where there are NICs, and several, they are faster than one core.
TEST_P(HostPeers, LargeOnesTakeTheNicsWhereThereAreAny) {
    start(GetParam());
    const auto peer = target(GetParam());
    Transfer* small = peer->prepare(Operation::write, (256 << 10) - 1);
    Transfer* large = peer->prepare(Operation::write, size);
    EXPECT_TRUE(goes_past_the_fabric(*small));
    EXPECT_EQ(goes_past_the_fabric(*large), !has_nics());
    ASSERT_EQ(run(*large), Status::ok);
    EXPECT_TRUE(peer->same_bytes());
}

TEST_P(HostPeers, EitherSideMaySayNo) {
    Fabric off = GetParam();
    off.local_rail = false;
    for (const bool ours : {true, false}) {
        start(ours ? off : GetParam());
        const auto peer = target(ours ? GetParam() : off, ours ? "beta" : "gamma");
        Transfer* write = peer->prepare(Operation::write, size);
        EXPECT_FALSE(goes_past_the_fabric(*peer->prepare(Operation::write, 8)));
        ASSERT_EQ(run(*write), Status::ok);
        EXPECT_TRUE(peer->same_bytes());
        EXPECT_EQ(report_of(peer->name).on_host, 0u);
    }
}

/// What it says of its process is not true, as for another PID namespace.
TEST_P(HostPeers, WhoCannotBeReachedIsReachedOverTheFabric) {
    start(GetParam());
    FarSide peer(*engine_, GetParam(), "beta", size);
    ConnectionInfo info = decode_connection(peer.info);
    info.host.back() = static_cast<char>(info.host.back() ^ 1);
    peer.info = encode(info);
    peer.meet();
    Transfer* write = peer.prepare(Operation::write, size);
    EXPECT_FALSE(goes_past_the_fabric(*write));
    ASSERT_EQ(run(*write), Status::ok);
    EXPECT_TRUE(peer.same_bytes());
}

TEST_P(HostPeers, AStoppedPeerNeedNotHelp) {
    start(GetParam());
    const auto peer = target(GetParam());
    Transfer* write = peer->prepare(Operation::write, 100'000);
    peer->process->send_signal(SIGSTOP);
    EXPECT_EQ(engine_->post(*write), Status::ok);
    peer->process->send_signal(SIGCONT);
}

/// Nothing of the fabric's has got to it, and nothing will.
TEST_P(HostPeers, APeerThatDoesNotLookYetIsNotGone) {
    start(GetParam());
    const auto peer = target(GetParam());
    Transfer* write = peer->prepare(Operation::write, 100'000);
    peer->process->send_signal(SIGSTOP);
    EXPECT_FALSE(until([&] { return state_of("beta") == PeerState::gone; }, milliseconds(2500)));
    EXPECT_EQ(engine_->post(*write), Status::ok);
    peer->process->send_signal(SIGCONT);
}

TEST_P(HostPeers, AKilledPeerEndsItsTransfersAndNobodyElses) {
    cluster().set("timeout_ms=200");
    start(GetParam());
    const auto victim = target(GetParam()), healthy = target(GetParam(), "gamma");
    const std::size_t length = has_nics() ? 200'000 : size;
    Transfer* write = victim->prepare(Operation::write, length);
    Transfer* read = victim->prepare(Operation::read, length);
    Transfer* other = healthy->prepare(Operation::write, length);
    ASSERT_EQ(run(*write), Status::ok);
    ASSERT_EQ(run(*other), Status::ok);
    static_cast<void>(engine_->post(*write));  // in flight, where it is longer than a round
    victim->process->send_signal(SIGKILL);
    const auto killed = Clock::now();
    for (Transfer* transfer : {write, read}) {
        Status status = wait(*transfer);
        while ((status == Status::ok || status == Status::not_posted) &&
               Clock::now() - killed < std::chrono::seconds(20))
            status = run(*transfer);
        EXPECT_EQ(status, Status::remote_disconnect);
        EXPECT_EQ(run(*other), Status::ok);
    }
    EXPECT_LT(Clock::now() - killed, milliseconds(4000)) << "0.25 s is promised, on a free machine";
    EXPECT_TRUE(until([&] { return state_of("beta") == PeerState::gone; }, milliseconds(4000)));
    EXPECT_TRUE(healthy->same_bytes() || length < size);
}

/// Its memory may be anything by now. Over shm the fabric would write there by the number of the process
/// alone.
TEST_P(HostPeers, APeerThatHasEndedItsEngineIsNotWrittenTo) {
    cluster().set("timeout_ms=200");
    start(GetParam());
    const auto peer = target(GetParam());
    Transfer* write = peer->prepare(Operation::write, 100'000);
    engine_->send_notification("beta", "so that the fabric knows the way");
    ASSERT_TRUE(until([&] { return !peer->process->notifications().empty(); }));
    const std::uint32_t before = peer->process->checksum(0);
    peer->process->end_engine();
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(run(*write), Status::remote_disconnect);
        drive(milliseconds(50));
    }
    EXPECT_EQ(peer->process->checksum(0), before);
}

/// What was short is there again, and the way within the host is still the better one.
TEST_P(HostPeers, AShortageOfDescriptorsPasses) {
    if (GetParam().provider != "tcp") return;  // others cannot prepare anything without one
    start(GetParam());
    const auto peer = target(GetParam());
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlimit none{0, limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    Transfer* const short_of_them = peer->prepare(Operation::write, 1000);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_FALSE(goes_past_the_fabric(*short_of_them));
    EXPECT_TRUE(until([&] { return goes_past_the_fabric(*peer->prepare(Operation::write, 1000)); }));
}

TEST_P(HostPeers, DeregisteredMemoryIsRefusedAndUntouched) {
    EnginePair pair(GetParam());
    Buffer source(*pair.a, 10'000, 1), destination(*pair.b, 10'000, 2);
    auto remote = pair.publish(destination);
    const LocalDescriptor from = source.local(0, 10'000);
    const RemoteDescriptor to{destination.address(), 10'000, &remote};
    Transfer* write = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", "never");
    ASSERT_TRUE(goes_past_the_fabric(*write));
    pair.b->deregister_memory(destination.region);
    EXPECT_EQ(pair.run(*write), Status::backend);
    EXPECT_TRUE(destination.bytes == std::vector<std::uint8_t>(10'000, 2));
    std::vector<Notification> heard;
    pair.until([] { return false; }, std::chrono::milliseconds(50));
    pair.b->take_notifications(heard);
    EXPECT_TRUE(heard.empty());
    pair.a->release(write);
}

Fabric local(const char* provider, int rails, bool thread) {
    return {provider, rails, thread, true};
}
INSTANTIATE_TEST_SUITE_P(Fabrics, HostPeers,
                         testing::Values(local("tcp", 2, false), local("tcp", 1, true), local("shm", 1, true),
                                         local("efa-direct", 4, false)),
                         fabric_name);

}  // namespace
}  // namespace railyard::test
