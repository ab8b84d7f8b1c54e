// Peers that are to move the bytes themselves, because no rail reaches their GPU's memory, and that die, hang
// or take too long over it: each is a process of its own.
#include <signal.h>

#include <algorithm>
#include <cstddef>
#include <thread>

#include "conformance/gpu_side.h"
#include "log_lines.h"
#include "manager/gpu_path.h"
#include "peers.h"
#include "simulated_machine.h"

namespace railyard::test {
namespace {

class GpuPeers : public testing::TestWithParam<Fabric>, protected Initiator {
  protected:
    static constexpr std::size_t size = std::size_t{1} << 20;
    static constexpr std::size_t most = std::size_t{28} << 20;  ///< nearly all that the buffers of a GPU hold
    /// Past this only `connect_timeout_ms` is left to end anything.
    static constexpr auto much = milliseconds(12'000);

    ~GpuPeers() override { cluster().reset(); }

    void start(ParamMap params = {}) {
        cluster().set("timeout_ms=200");
        params.try_emplace("connect_timeout_ms", "30000");
        params["vram_staging"] = "always";
        has_thread_ = GetParam().progress_thread;
        engine_ = make_engine("alpha", GetParam(), params);
    }
    /// Its far memory is a GPU's.
    std::unique_ptr<FarSide> target(std::size_t bytes = size) {
        Words params{"agent=beta", "vram_staging=always"};
        for (const auto& [key, value] : fabric_params(GetParam()))
            params.push_back(key + "=" + value);
        auto made = std::make_unique<FarSide>(
            *engine_, std::make_unique<OtherMachine>(std::getenv("HWLOC_XMLFILE"), "beta", params, true),
            "beta", bytes);
        made->far = made->process->make_gpu_buffer(bytes);
        made->meet();
        return made;
    }
    /// Carried out once, and then asked of a peer that does nothing any more.
    Transfer* leave_in_flight(FarSide& peer, Operation operation) {
        return leave_in_flight(peer, peer.prepare(operation, size));
    }
    Transfer* leave_in_flight(FarSide& peer, Transfer* transfer) {
        EXPECT_EQ(run(*transfer), Status::ok);
        peer.process->send_signal(SIGSTOP);
        EXPECT_EQ(engine_->post(*transfer), Status::in_progress);
        return transfer;
    }
    /// From GPU to GPU, all of both.
    Transfer* prepare_all(FarSide& peer, const Place& near, Operation operation) {
        const LocalDescriptor here{near.address, near.length, &near.region};
        const RemoteDescriptor there{peer.far.address, near.length, &peer.remote};
        peer.transfers.push_back(engine_->prepare(operation, {&here, 1}, {&there, 1}, "beta", std::nullopt));
        return peer.transfers.back();
    }
    /// A READ that is left so ends by itself; afterwards the peer goes on.
    Transfer* end_in_time(FarSide& peer, Status expected) {
        Transfer* read = leave_in_flight(peer, Operation::read);
        const auto posted = Clock::now();
        EXPECT_EQ(wait(*read), expected);
        EXPECT_LT(Clock::now() - posted, much);
        peer.process->send_signal(SIGCONT);
        return read;
    }
};

TEST_P(GpuPeers, AKilledOneEndsWhatItWasAskedFor) {
    for (const Operation operation : {Operation::read, Operation::write}) {
        start();
        const auto peer = target();
        Transfer* transfer = leave_in_flight(*peer, operation);
        drive(milliseconds(50));
        peer->process->send_signal(SIGKILL);
        const auto killed = Clock::now();
        EXPECT_EQ(wait(*transfer), Status::remote_disconnect);
        const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - killed);
        RecordProperty(operation == Operation::read ? "read_ms" : "write_ms", static_cast<int>(took.count()));
        EXPECT_LT(took, milliseconds(4000)) << "1 s is promised, on a machine with nothing else to do";
    }
}

/// What they were asked to write to, or to read from, are buffers that transfers to others need.
TEST_P(GpuPeers, BuffersThatKilledOnesWereToldOfAreUsedAgain) {
    start();
    Place near(*engine_, 0, most);
    for (const Operation operation : {Operation::read, Operation::write, Operation::read}) {
        const auto peer = target(most);
        Transfer* transfer = prepare_all(*peer, near, operation);
        ASSERT_TRUE(until([&] { return run(*transfer) == Status::ok; })) << "none came back";
        leave_in_flight(*peer, transfer);
        drive(milliseconds(50));
        peer->process->send_signal(SIGKILL);
        EXPECT_EQ(wait(*transfer), Status::remote_disconnect);
    }
    {
        const auto peer = target(most);
        for (const Operation operation : {Operation::read, Operation::write}) {
            Transfer* transfer = prepare_all(*peer, near, operation);
            EXPECT_TRUE(until([&] { return run(*transfer) == Status::ok; })) << "none came back";
        }
    }
    near.drop(*engine_);
}

TEST_P(GpuPeers, ASilentOneIsGivenUpAndTakenBack) {
    start({{"peer_timeout_ms", "500"}});
    const auto peer = target();
    Transfer* read = end_in_time(*peer, Status::remote_disconnect);
    Status again = Status::remote_disconnect;
    EXPECT_TRUE(until([&] { return (again = run(*read)) != Status::remote_disconnect; }))
        << "never taken back";
    EXPECT_EQ(again, Status::ok);
}

TEST_P(GpuPeers, PastItsTimeATransferEnds) {
    start({{"xfer_timeout_ms", "300"}});
    const auto peer = target();
    end_in_time(*peer, Status::canceled);
}

TEST_P(GpuPeers, ReleasedItEndsAndItsMemoryGoes) {
    start();
    const auto peer = target();
    Transfer* write = leave_in_flight(*peer, Operation::write);
    peer->transfers.clear();
    const auto begin = Clock::now();
    engine_->release(write);
    EXPECT_LT(Clock::now() - begin, milliseconds(4000));
    engine_->deregister_memory(peer->near->region);  // throws while it is in flight
    peer->near->region.reset();
    peer->process->send_signal(SIGCONT);
}

/// It has answered long since, and nobody has called in to read that.
TEST_P(GpuPeers, OneThatHasAnsweredIsNotGivenUpWhenSomebodyLooksAtLast) {
    start({{"connect_timeout_ms", "1500"}});
    const auto peer = target();
    for (const Operation operation : {Operation::read, Operation::write}) {
        Transfer* transfer = peer->prepare(operation, size);
        EXPECT_EQ(run(*transfer), Status::ok);
        EXPECT_EQ(engine_->post(*transfer), Status::in_progress);
        std::this_thread::sleep_for(milliseconds(1800));
        EXPECT_EQ(wait(*transfer), Status::ok);
    }
}

class LateGpuPeers : public GpuPeers {};

/// It was only stopped, in the middle of what it was asked for, and goes on with that.
TEST_P(LateGpuPeers, ALateOneIsKeptFromBuffersThatAreUsedAgain) {
    const LogLines lines(log::Level::info);
    start({{"peer_timeout_ms", "500"}});
    Place near(*engine_, 0, most);
    {
        const auto peer = target(most);
        Transfer* read = prepare_all(*peer, near, Operation::read);
        EXPECT_EQ(run(*read), Status::ok);
        const auto is_left = [&] {
            EXPECT_EQ(engine_->post(*read), Status::in_progress);
            std::this_thread::sleep_for(milliseconds(20));  // nobody looks: what it writes stays on the way
            peer->process->send_signal(SIGSTOP);
            if (wait(*read, milliseconds(200)) == Status::in_progress) return true;
            peer->process->send_signal(SIGCONT);
            return false;
        };
        ASSERT_TRUE(until(is_left));
        EXPECT_EQ(wait(*read), Status::remote_disconnect);
        EXPECT_TRUE(until([] { return LogLines::contain("that were not answered are used again"); }));
        const cuda::PinnedMemory& buffers = near.region->gpu->own().rail().ring().memory();
        const auto mark = std::byte{0x5a};
        std::fill_n(buffers.data(), buffers.size(), mark);
        peer->process->send_signal(SIGCONT);
        drive(milliseconds(1500));
        EXPECT_EQ(std::count(buffers.data(), buffers.data() + buffers.size(), mark),
                  static_cast<std::ptrdiff_t>(buffers.size()));
        EXPECT_TRUE(until([&] { return run(*read) == Status::ok; })) << "never taken back";
    }
    near.drop(*engine_);
}

class NeighbourOfGpuPeers : public GpuPeers {};

/// Over sockets nobody tells which of its host's connections are a late one's.
TEST_P(NeighbourOfGpuPeers, AnotherOfItsHostIsStillServed) {
    const LogLines lines(log::Level::info);
    start({{"peer_timeout_ms", "500"}});
    Place near(*engine_, 0, most);
    FarSide other(*engine_, GetParam(), "gamma", size);
    other.process->load("alpha", engine_->connection_info());
    const auto is_written_to = [&] {
        other.process->start_write(
            0, "alpha", {engine_->memory_metadata(*other.near->region), other.near->address(), size},
            "written");
        std::string status;
        EXPECT_TRUE(until([&] { return !(status = other.process->written()).empty(); }));
        return status == to_string(Status::ok) && other.same_bytes();
    };
    EXPECT_TRUE(is_written_to());
    {
        const auto peer = target(most);
        Transfer* read = leave_in_flight(*peer, prepare_all(*peer, near, Operation::read));
        EXPECT_EQ(wait(*read), Status::remote_disconnect);
        EXPECT_TRUE(until([] { return LogLines::contain("that were not answered are used again"); }));
        for (int i = 0; i < 3; ++i) {
            std::fill(other.near->bytes.begin(), other.near->bytes.end(), std::uint8_t{0});
            EXPECT_TRUE(is_written_to());
        }
        std::vector<Notification> arrived;
        EXPECT_TRUE(until([&] {
            engine_->take_notifications(arrived);
            return arrived.size() >= 4;
        }));
        peer->process->send_signal(SIGCONT);
    }
    near.drop(*engine_);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, GpuPeers,
                         testing::Values(Fabric{"tcp", 1, true}, Fabric{"efa-direct", 2, false}),
                         fabric_name);
INSTANTIATE_TEST_SUITE_P(Fabrics, LateGpuPeers,
                         testing::Values(Fabric{"tcp", 1, false}, Fabric{"efa-direct", 2, false}),
                         fabric_name);
INSTANTIATE_TEST_SUITE_P(Fabrics, NeighbourOfGpuPeers, testing::Values(Fabric{"tcp", 1, false}), fabric_name);

}  // namespace
}  // namespace railyard::test
