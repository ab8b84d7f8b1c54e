// From a GPU of ours to one of another process on this host, whose memory is mapped here: right, without the
// peer's help, and at an end when the peer is.
#include <backend/backend_engine.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "conformance/gpu_side.h"
#include "engine/metadata.h"
#include "engine/transfer.h"
#include "fault/process/child.h"
#include "forbid_process_vm.h"
#include "host/plugin_loader.h"
#include "peers.h"
#include "sanitized.h"
#include "simulated_machine.h"
#include "unit/stream/program_stream.h"

namespace railyard::test {
namespace {

class GpuCopies : public testing::TestWithParam<Fabric>, protected Initiator {
  protected:
    static constexpr std::size_t size = std::size_t{3} << 20;

    ~GpuCopies() override {
        fake().fail_nothing();
        fake().hold(false);
        peer_.reset();
        if (near_ && engine_) near_->drop(*engine_);
        near_.reset();
        engine_.reset();
        cluster().reset();
        EXPECT_EQ(fake().statistics().imports, 0u);
    }

    void start() {
        if (std::getenv("RAILYARD_TEST_NO_PROCESS_VM")) {
            ASSERT_TRUE(forbid_process_vm());
        }
        has_thread_ = GetParam().progress_thread;
        engine_ = make_engine("alpha", GetParam());
        peer_ = std::make_unique<FarSide>(*engine_, GetParam(), "beta", 100);
        peer_->far = peer_->process->make_gpu_buffer(size);
        peer_->meet();
        near_ = std::make_unique<Place>(*engine_, 0, size);
    }
    Transfer* prepare(Operation operation, std::size_t length = size, std::size_t at = 0,
                      std::optional<std::string_view> message = std::nullopt) {
        const LocalDescriptor here{near_->address + at, length, &near_->region};
        const RemoteDescriptor there{peer_->far.address + at, length, &peer_->remote};
        peer_->transfers.push_back(engine_->prepare(operation, {&here, 1}, {&there, 1}, "beta", message));
        return peer_->transfers.back();
    }
    static bool is_copied(const Transfer& transfer) {
        return transfer.routes.front().rail->name() == "gpu0:copies";
    }
    /// Of the far memory, as an engine reads it that knows nothing of copies.
    std::vector<std::uint8_t> seen_by_fabric() {
        Fabric plain = GetParam();
        plain.local_rail = false;
        const auto other = make_engine("gamma", plain);
        Buffer buffer(*other, size);
        other->load_connection_info("beta", peer_->info);
        const auto remote = other->load_remote_memory("beta", peer_->far.metadata, peer_->far.address, size);
        const LocalDescriptor here = buffer.local(0, size);
        const RemoteDescriptor there{peer_->far.address, size, &remote};
        Transfer* read = other->prepare(Operation::read, {&here, 1}, {&there, 1}, "beta", std::nullopt);
        EXPECT_EQ(run_alone(*other, *read), Status::ok);
        other->release(read);
        other->deregister_memory(buffer.region);
        return buffer.bytes;
    }
    void kill_peer() { peer_->process->send_signal(SIGKILL); }

    std::unique_ptr<FarSide> peer_;
    std::unique_ptr<Place> near_;
};

TEST_P(GpuCopies, BytesAndNotificationsAreThereAndThePeerNeedNotHelp) {
    start();
    Transfer* write = prepare(Operation::write, size, 0, "there");
    Transfer* read = prepare(Operation::read);
    ASSERT_TRUE(is_copied(*write) && is_copied(*read));
    near_->fill(5);
    const std::vector<std::uint8_t> sent = near_->content();
    ASSERT_EQ(run(*write), Status::ok);
    Words heard;
    EXPECT_TRUE(until([&] { return !(heard = peer_->process->notifications()).empty(); }));
    EXPECT_EQ(heard, (Words{"alpha:there"}));
    EXPECT_TRUE(seen_by_fabric() == sent);
    near_->fill(6);
    peer_->process->send_signal(SIGSTOP);
    EXPECT_EQ(run(*read), Status::ok);
    EXPECT_TRUE(near_->content() == sent);
    Transfer* piece = prepare(Operation::write, 4099, 8191);
    near_->fill(7);
    EXPECT_EQ(run(*piece), Status::ok);
    peer_->process->send_signal(SIGCONT);
    std::vector<std::uint8_t> expected = sent;
    const std::vector<std::uint8_t> now = near_->content();
    std::copy_n(now.begin() + 8191, 4099, expected.begin() + 8191);
    EXPECT_TRUE(seen_by_fabric() == expected);
    const RailCounters counters = write->routes.front().rail->counters();
    EXPECT_EQ(counters.bytes[0], size);
    EXPECT_EQ(counters.bytes[1], size + 4099);
}

TEST_P(GpuCopies, AKilledPeerEndsThem) {
    start();
    for (const Operation operation : {Operation::write, Operation::read}) {
        Transfer* transfer = prepare(operation);
        if (operation == Operation::write) {
            ASSERT_EQ(run(*transfer), Status::ok);
            kill_peer();
        }
        const auto killed = Clock::now();
        Status status = Status::ok;
        while (status == Status::ok && Clock::now() - killed < std::chrono::seconds(20))
            status = run(*transfer);
        EXPECT_EQ(status, Status::remote_disconnect);
        EXPECT_LT(Clock::now() - killed, milliseconds(4000));
    }
    EXPECT_TRUE(until([&] { return state_of("beta") == PeerState::gone; }, milliseconds(4000)));
}

/// What is mapped keeps the memory of a process allocated that has ended, on a GPU that others are to use.
TEST_P(GpuCopies, WhatIsMappedOfAKilledPeerIsClosedWhateverIsKept) {
    start();
    Transfer* write = prepare(Operation::write);
    ASSERT_EQ(run(*write), Status::ok);
    EXPECT_EQ(fake().statistics().imports, 1u);
    kill_peer();
    EXPECT_TRUE(until([] { return fake().statistics().imports == 0; }, milliseconds(4000)));
    EXPECT_EQ(run(*write), Status::remote_disconnect);
    EXPECT_EQ(run(*prepare(Operation::read)), Status::remote_disconnect);
    drive(milliseconds(100));
    EXPECT_EQ(fake().statistics().imports, 0u) << "it was mapped once more";
}

TEST_P(GpuCopies, ACopyUnderWayIsWaitedForBeforeAKilledPeersMemoryIsClosed) {
    start();
    Transfer* write = prepare(Operation::write);
    ASSERT_EQ(run(*write), Status::ok);
    fake().hold(true);
    ASSERT_EQ(engine_->post(*write), Status::in_progress);
    kill_peer();
    drive(milliseconds(900));
    EXPECT_EQ(fake().statistics().imports, 1u) << "closed under a copy";
    fake().hold(false);
    EXPECT_EQ(wait(*write), Status::remote_disconnect);
    EXPECT_TRUE(until([] { return fake().statistics().imports == 0; }, milliseconds(4000)));
}

/// Its owner may free it, and wants it back.
TEST_P(GpuCopies, WhatAPeerHasDeregisteredIsClosedOnceNoTransferHasIt) {
    start();
    Transfer* write = prepare(Operation::write);
    ASSERT_EQ(run(*write), Status::ok);
    peer_->process->forget_gpu_buffer();
    drive(milliseconds(700));
    EXPECT_EQ(fake().statistics().imports, 1u) << "closed, and a transfer may copy to it";
    EXPECT_NE(run(*write), Status::ok);
    engine_->release(write);
    peer_->transfers.clear();
    EXPECT_TRUE(until([] { return fake().statistics().imports == 0; }, milliseconds(4000)));
    EXPECT_FALSE(is_copied(*prepare(Operation::write)));
    EXPECT_EQ(fake().statistics().imports, 0u) << "it was mapped once more";
    // Known by the same words again: so is the metadata of before.
    peer_->far = peer_->process->register_gpu_buffer(size);
    Transfer* again = prepare(Operation::write);
    EXPECT_TRUE(is_copied(*again));
    near_->fill(11);
    ASSERT_EQ(run(*again), Status::ok);
    EXPECT_TRUE(seen_by_fabric() == near_->content());
}

TEST_P(GpuCopies, WhatIsMappedOfADisconnectedPeerIsClosedOnceNoTransferHasIt) {
    start();
    Transfer* write = prepare(Operation::write);
    ASSERT_EQ(run(*write), Status::ok);
    engine_->disconnect("beta");
    engine_->release(write);
    peer_->transfers.clear();
    EXPECT_TRUE(until([] { return fake().statistics().imports == 0; }, milliseconds(4000)));
    peer_->meet();
    EXPECT_TRUE(is_copied(*prepare(Operation::write)));
    EXPECT_EQ(run(*peer_->transfers.back()), Status::ok);
}

/// In it, every call of a real driver fails, or hangs.
TEST_P(GpuCopies, AForkedChildThatLetsGoOfTheMemoryCallsNoDriver) {
    if (sanitized) GTEST_SKIP() << "the sanitizer's allocator is not made ready for fork()";
    start();
    Transfer* write = prepare(Operation::write);
    ASSERT_TRUE(is_copied(*write));
    ASSERT_EQ(run(*write), Status::ok);
    engine_->release(write);
    peer_->transfers.clear();
    EXPECT_EQ(peer_->remote.use_count(), 1);
    Child child(Child::End::at_once, [&] {
        const std::size_t calls = fake().statistics().calls;
        peer_->remote.reset();
        return fake().statistics().calls == calls ? 0 : 1;
    });
    EXPECT_EQ(child.outcome([&] { engine_->progress(); }), "exit 0");
    EXPECT_EQ(run(*prepare(Operation::write)), Status::ok) << "the parent's is still mapped";
}

/// Whose memory it was is found out although the copy itself goes well.
TEST_P(GpuCopies, OneThatDiesWhileItIsCopiedIsNoSuccess) {
    start();
    Transfer* write = prepare(Operation::write);
    ASSERT_EQ(run(*write), Status::ok);
    fake().hold(true);
    ASSERT_EQ(engine_->post(*write), Status::in_progress);
    kill_peer();
    siginfo_t ended{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(peer_->process->pid()), &ended, WEXITED | WNOWAIT), 0);
    drive(milliseconds(15));  // a look holds for a tick of the coarse clock
    fake().hold(false);
    EXPECT_EQ(wait(*write), Status::remote_disconnect);
}

TEST_P(GpuCopies, WhereTheDriverSaysNoItGoesTheUsualWay) {
    start();
    fake().fail("cuIpcOpenMemHandle", 0, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    Transfer* write = prepare(Operation::write);
    EXPECT_FALSE(is_copied(*write));
    near_->fill(8);
    ASSERT_EQ(run(*write), Status::ok);
    EXPECT_TRUE(seen_by_fabric() == near_->content());
    fake().fail_nothing();
    EXPECT_FALSE(is_copied(*prepare(Operation::write))) << "it is asked once";
}

/// A copy past its end would be refused, a kernel would end our context.
TEST_P(GpuCopies, AnAllocationThatIsShorterThanItSaysIsNotMapped) {
    start();
    MemoryInfo info = decode_memory(peer_->far.metadata);
    info.shared->length += 4096;
    peer_->remote = engine_->load_remote_memory("beta", encode(info), peer_->far.address, size);
    EXPECT_FALSE(is_copied(*prepare(Operation::write)));
    EXPECT_EQ(fake().statistics().imports, 0u);
}

TEST_P(GpuCopies, WithoutRightsForTheProcessItGoesTheUsualWay) {
    start();
    ConnectionInfo info = decode_connection(peer_->info);
    info.host.back() = static_cast<char>(info.host.back() ^ 1);
    engine_->disconnect("beta");
    peer_->info = encode(info);
    peer_->meet();
    Transfer* write = prepare(Operation::write);
    EXPECT_FALSE(is_copied(*write));
    near_->fill(9);
    ASSERT_EQ(run(*write), Status::ok);
    EXPECT_TRUE(seen_by_fabric() == near_->content());
}

TEST_P(GpuCopies, AnAllocationIsMappedOnceAndNoLongerThanItsRegionsAreKnown) {
    start();
    EXPECT_EQ(fake().statistics().imports, 0u);
    auto second = engine_->load_remote_memory("beta", peer_->far.metadata, peer_->far.address, size / 2);
    prepare(Operation::write);
    const LocalDescriptor here{near_->address, 10, &near_->region};
    const RemoteDescriptor there{peer_->far.address, 10, &second};
    Transfer* other = engine_->prepare(Operation::write, {&here, 1}, {&there, 1}, "beta", std::nullopt);
    EXPECT_TRUE(is_copied(*other));
    EXPECT_EQ(fake().statistics().imports, 1u);
    engine_->release(peer_->transfers.front());
    peer_->transfers.clear();
    peer_->remote.reset();
    EXPECT_EQ(fake().statistics().imports, 1u);
    EXPECT_EQ(run(*other), Status::ok);
    engine_->release(other);
    second.reset();
    EXPECT_EQ(fake().statistics().imports, 0u);
}

TEST_P(GpuCopies, WhatIsMappedIsGivenBackWithTheEngine) {
    start();
    ASSERT_EQ(run(*prepare(Operation::write)), Status::ok);
    for (Transfer* transfer : peer_->transfers)
        engine_->release(transfer);
    peer_->transfers.clear();
    const std::shared_ptr<RemoteRegion> outlives = peer_->remote;
    peer_.reset();
    near_->drop(*engine_);
    near_.reset();
    EXPECT_LE(fake().statistics().imports, 1u) << "its process has ended, so the watch may have closed it";
    engine_.reset();
    EXPECT_EQ(fake().statistics().imports, 0u);
}

/// The plugin with memory of ours and the far one.
class PluggedIn {
  public:
    PluggedIn(const Fabric& fabric, const Place& near, const FarSide& peer) : far_(peer.far) {
        nixl_b_params_t params;
        for (const auto& [key, value] : fabric_params(fabric))
            params[key] = value;
        nixlBackendInitParams init;
        init.localAgent = "gamma";
        init.type = "RAILYARD";
        init.customParams = &params;
        setenv("RAILYARD_LOCAL_RAIL", "auto", 1);  // off for all tests, and before what the host says
        engine = plugin_.create_engine(init);
        setenv("RAILYARD_LOCAL_RAIL", "off", 1);
        nixlBlobDesc here = descriptor(near.address), there = descriptor(far_.address);
        there.metaInfo = far_.metadata;
        EXPECT_EQ(engine->registerMem(here, VRAM_SEG, near_), NIXL_SUCCESS);
        EXPECT_EQ(engine->loadRemoteConnInfo("beta", peer.info), NIXL_SUCCESS);
        EXPECT_EQ(engine->loadRemoteMD(there, VRAM_SEG, "beta", remote_), NIXL_SUCCESS);
        from_.addDesc({here, near_});
        to_.addDesc({there, remote_});
    }
    nixl_status_t prepare() {
        nixlBackendReqH* request = nullptr;
        const nixl_status_t status = engine->prepXfer(NIXL_WRITE, from_, to_, "beta", request, nullptr);
        if (request) engine->releaseReqH(request);
        return status;
    }

  private:
    [[nodiscard]] nixlBlobDesc descriptor(std::uint64_t address) const {
        nixlBlobDesc desc;
        desc.addr = address;
        desc.len = far_.size;
        desc.devId = 0;
        return desc;
    }

    const PublishedBuffer far_;
    const host::Plugin plugin_{host::plugin_directory(""), "RAILYARD"};
    nixlBackendMD *near_ = nullptr, *remote_ = nullptr;
    nixl_meta_dlist_t from_{VRAM_SEG}, to_{VRAM_SEG};

  public:
    host::EnginePointer engine;
};

/// The driver may wait for the GPU, and that for what another thread has yet to prepare.
TEST_P(GpuCopies, WhoMapsMemoryKeepsNobodyFromTheHandlesOfOthers) {
    start();
    PluggedIn plugged(GetParam(), *near_, *peer_);
    const auto gpu = std::make_shared<cuda::PrimaryContext>(cuda_driver(), 0);
    const ProgramStream stream(gpu);
    StreamGate gate(stream);
    const std::size_t before = fake().statistics().held_up;
    const auto waiting = [&] { return fake().statistics().held_up - before; };
    std::thread holder([&] {
        const cuda::ContextGuard guard(*gpu);
        EXPECT_EQ(fake().load_lazily(60'000), 0u);
    });
    std::thread probe([&] {
        while (waiting() == 0)
            EXPECT_TRUE(stream.idle() || waiting() == 0);
    });
    ASSERT_TRUE(until([&] { return waiting() == 1; }));
    nixl_status_t prepared = NIXL_IN_PROG;
    std::thread mapper([&] { prepared = plugged.prepare(); });
    EXPECT_TRUE(until([&] { return waiting() == 2; })) << "it maps nothing";
    std::vector<std::uint8_t> bytes(4096);
    std::atomic<int> done{0};
    std::thread changes([&] {
        nixlBlobDesc desc;
        desc.addr = reinterpret_cast<std::uint64_t>(bytes.data());
        desc.len = bytes.size();
        desc.devId = 0;
        nixlBackendMD* handle = nullptr;
        EXPECT_EQ(plugged.engine->registerMem(desc, DRAM_SEG, handle), NIXL_SUCCESS);
        EXPECT_EQ(plugged.engine->deregisterMem(handle), NIXL_SUCCESS);
        ++done;
    });
    EXPECT_TRUE(until([&] { return done == 1; }, milliseconds(3000))) << "a registration waits";
    std::thread looks([&] {
        nixl_reg_dlist_t list(DRAM_SEG);
        list.addDesc(nixlBlobDesc());
        std::vector<nixl_query_resp_t> answers;
        EXPECT_EQ(plugged.engine->queryMem(list, answers), NIXL_SUCCESS);
        ++done;
    });
    EXPECT_TRUE(until([&] { return done == 2; }, milliseconds(3000))) << "a query waits";
    gate.open();
    for (std::thread* each : {&holder, &probe, &mapper, &changes, &looks})
        each->join();
    EXPECT_EQ(prepared, NIXL_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, GpuCopies,
                         testing::Values(Fabric{"tcp", 1, false, true}, Fabric{"tcp", 2, true, true},
                                         Fabric{"efa-direct", 2, false, true}),
                         fabric_name);

}  // namespace
}  // namespace railyard::test
