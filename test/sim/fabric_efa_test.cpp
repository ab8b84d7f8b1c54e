// Fabric efa, whose FI_MORE may be for ever, and which shares memory with peers on its host unless told not
// to.
#include <rdma/fi_endpoint.h>

#include <thread>

#include "fabric/domain.h"
#include "fabric/endpoint.h"
#include "failover.h"

namespace railyard::test {
namespace {

constexpr const char* one_of_a = "rdmap79s0";
constexpr const char* one_of_b = "rdmap96s0";

class FabricEfa : public Failover {
  protected:
    FabricEfa() : Failover(1, {{"devices", one_of_a}}, one_of_b) {}
};

/// The first of a rail's operations wait for a handshake, 16 of them; what follows is refused. Whether that
/// is ever posted must not matter to them.
TEST_P(FabricEfa, WhatWaitedForAHandshakeIsRungFor) {
    std::vector<LocalDescriptor> from;
    std::vector<RemoteDescriptor> to;
    for (std::size_t i = 0; i < 32; ++i) {
        from.push_back(source_->local(i * 8192, 64));
        to.push_back({target_->address() + i * 8192, 64, &remote_});
    }
    Transfer* transfer = a_->prepare(Operation::write, from, to, "beta", std::nullopt);
    const Growth writes("writes", first_of_a);
    ASSERT_EQ(a_->post(*transfer), Status::in_progress);
    {
        const Disturbance nothing_taken("eagain_probability=1", first_of_a);
        drive(milliseconds(200));
        EXPECT_GE(writes.value(), 16u);
    }
    EXPECT_EQ(wait(*transfer), Status::ok);
    a_->release(transfer);
}

/// It waits for an answer to a handshake, and nothing leaves any more that could tell whether one comes.
class GoneUnderAHandshake : public Failover {
  protected:
    GoneUnderAHandshake() : Failover(2, {{"peer_timeout_ms", "1000"}, {"xfer_timeout_ms", "0"}}) {}
};

/// With an error: for all that is known, it may yet leave.
TEST_P(GoneUnderAHandshake, WhatIsUnderWayOnADeviceThatHasGoneEnds) {
    Transfer* transfer = prepare();
    const auto start = std::chrono::steady_clock::now();
    ASSERT_EQ(a_->post(*transfer), Status::in_progress);
    cluster().set("gone=1", first_of_a);
    EXPECT_EQ(wait(*transfer), Status::remote_disconnect);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    EXPECT_EQ(run(*transfer), Status::ok) << "over the other rail";
    EXPECT_TRUE(source_->bytes == target_->bytes);
    a_->release(transfer);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, GoneUnderAHandshake, testing::Values("efa"), efa_name);

/// The peer's NIC fails to send the answer to a handshake, that operations wait for.
class LostAnswers : public Failover {
  protected:
    LostAnswers()
        : Failover(1, {{"peer_timeout_ms", "600"}, {"xfer_timeout_ms", "0"}, {"devices", one_of_a}},
                   one_of_b) {}
};

TEST_P(LostAnswers, ATransferIsCarriedOutAgainAfterTheSecondToo) {
    Transfer* transfer = prepare();
    cluster().set("error_code=15", first_of_b);
    cluster().set("error_next=2", first_of_b);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(run(*transfer), Status::ok);
    EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(1200)) << "two have been lost";
    EXPECT_TRUE(source_->bytes == target_->bytes);
    a_->release(transfer);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, LostAnswers, testing::Values("efa"), efa_name);

/// Beside beta, gamma on a NIC of its own.
class BesideASilentPeer : public Failover {
  protected:
    BesideASilentPeer()
        : Failover(1, {{"devices", one_of_a}, {"xfer_timeout_ms", "500"}, {"peer_timeout_ms", "60000"}},
                   one_of_b) {
        c_ = engine("gamma", "rdmap97s0", {});
        a_->load_connection_info("gamma", c_->connection_info());
        c_->load_connection_info("alpha", a_->connection_info());
        there_ = std::make_unique<Buffer>(*c_, size);
        remote_there_ =
            a_->load_remote_memory("gamma", c_->memory_metadata(*there_->region), there_->address(), size);
        const LocalDescriptor from = source_->local(0, 4096);
        const RemoteDescriptor to{there_->address(), 4096, &remote_there_};
        to_gamma_ = a_->prepare(Operation::write, {&from, 1}, {&to, 1}, "gamma", std::nullopt);
    }
    Status run_to_gamma() {
        Status status = a_->post(*to_gamma_);
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (status == Status::in_progress && std::chrono::steady_clock::now() < end) {
            status = a_->poll(*to_gamma_);
            c_->progress();
        }
        return status;
    }
    std::unique_ptr<Engine> c_;
    std::unique_ptr<Buffer> there_;
    std::shared_ptr<RemoteRegion> remote_there_;
    Transfer* to_gamma_ = nullptr;
};

/// A transfer to it is given up, so that the endpoint that it left from is to be closed.
TEST_P(BesideASilentPeer, OthersGoOn) {
    warm_up();
    ASSERT_EQ(run_to_gamma(), Status::ok);
    Transfer* silent = prepare(4096);
    cluster().set("timeout_ms=4000");
    cluster().set("link=down", first_of_b);
    ASSERT_EQ(a_->post(*silent), Status::in_progress);
    const auto start = std::chrono::steady_clock::now();
    std::chrono::steady_clock::duration longest{};
    std::size_t rounds = 0, stopped = 0;
    Status status = Status::in_progress;
    while (status == Status::in_progress &&
           std::chrono::steady_clock::now() < start + std::chrono::seconds(15)) {
        const auto begun = std::chrono::steady_clock::now();
        const Status here = run_to_gamma();
        if (here == Status::canceled) {
            ++stopped;  // the machine may be for half a second, now and then
        } else {
            EXPECT_EQ(here, Status::ok);
        }
        status = a_->poll(*silent);
        longest = std::max(longest, std::chrono::steady_clock::now() - begun);
        ++rounds;
    }
    EXPECT_LT(longest, milliseconds(1500)) << "the rail has stood still";
    EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(3500)) << "it was still under way";
    EXPECT_EQ(status, Status::canceled);
    EXPECT_GE(rounds, 10u);
    EXPECT_LE(stopped, 2u);
    a_->release(silent);
    a_->release(to_gamma_);
}

/// What is under way to it may touch the memory for long after its handle was released, and a host may not
/// ask twice: the NIC has it no longer than that.
class DeregisteredUnderASilentPeer : public Failover {
  protected:
    DeregisteredUnderASilentPeer()
        : Failover(1,
                   {{"devices", one_of_a},
                    {"xfer_timeout_ms", "500"},
                    {"peer_timeout_ms", "60000"},
                    {"connect_timeout_ms", "300"}},
                   one_of_b) {}
};

TEST_P(DeregisteredUnderASilentPeer, MemoryGoesWithTheLastTransferThoughItWasRefused) {
    warm_up();
    Transfer* silent = prepare(4096);
    const Growth regions("regions", first_of_a);
    cluster().set("timeout_ms=4000");
    cluster().set("link=down", first_of_b);
    ASSERT_EQ(a_->post(*silent), Status::in_progress);
    drive(milliseconds(1000));
    a_->release(silent);
    const std::shared_ptr<Registration> region = source_->region;
    try {
        a_->deregister_memory(region);
        ADD_FAILURE() << "deregistered under a transfer";
    } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::not_allowed);
    }
    EXPECT_FALSE(region->deregistered.load());
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(15);
    // The sender that took over has one for its own buffers, and so has each that is set aside until it is
    // closed.
    while (regions.value() != 0 && std::chrono::steady_clock::now() < limit)
        drive(milliseconds(10));
    EXPECT_TRUE(region->deregistered.load());
    EXPECT_EQ(regions.value(), 0u) << "one less";
}

INSTANTIATE_TEST_SUITE_P(Fabrics, DeregisteredUnderASilentPeer, testing::Values("efa"), efa_name);

/// What the provider waits for is waited for apart.
TEST_P(BesideASilentPeer, TheEngineEnds) {
    warm_up();
    a_->release(to_gamma_);
    Transfer* silent = prepare(4096);
    for (const char* setting : {"timeout_ms=60000", "close_wait_ms=6000"})
        cluster().set(setting);
    cluster().set("link=down", first_of_b);
    const Growth set_aside("endpoints", first_of_a);
    ASSERT_EQ(a_->post(*silent), Status::in_progress);
    const auto in_time = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (set_aside.value() == 0 && std::chrono::steady_clock::now() < in_time)
        drive(milliseconds(10));
    const std::uint64_t endpoints = cluster().counter("endpoints", first_of_a);
    EXPECT_GT(endpoints, 2u);
    EXPECT_LE(cluster().counter("receive_buffers", first_of_a), 8192 + (endpoints - 1) * 1024)
        << "of the provider's own";
    const auto start = std::chrono::steady_clock::now();
    a_->release(silent);
    source_.reset();
    a_.reset();
    EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(5000)) << "it waited for the provider";
    EXPECT_NE(cluster().counter("endpoints", first_of_a), 0u);
    b_.reset();
    c_.reset();
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (cluster().counter("endpoints", first_of_a) != 0 && std::chrono::steady_clock::now() < limit)
        std::this_thread::sleep_for(milliseconds(10));
    EXPECT_EQ(cluster().counter("endpoints", first_of_a), 0u) << "closed once the provider is through";
}

INSTANTIATE_TEST_SUITE_P(Fabrics, BesideASilentPeer, testing::Values("efa"), efa_name);
INSTANTIATE_TEST_SUITE_P(Fabrics, FabricEfa, testing::Values("efa"), efa_name);

/// The provider pins a packet for each of its receive buffers.
TEST(FabricEfaEndpoint, ToSendFromHasFewReceiveBuffersOfTheProvider) {
    auto devices = fabric::discover("efa", fabric::parse_device_filter(one_of_a));
    ASSERT_EQ(devices.size(), 1u);
    fabric::Domain domain(std::make_shared<const fabric::Device>(std::move(devices.front())), "rail");
    fabric::CompletionQueue queue(domain, 64, false);
    fabric::AddressVector ours(domain), theirs(domain);
    const Growth buffers("receive_buffers", first_of_a);
    const fabric::Endpoint sender(domain, queue, ours, fabric::Endpoint::Duty::send);
    EXPECT_LE(buffers.value(), 1024u);
    EXPECT_GE(buffers.value(), 512u);
    const std::uint64_t before = buffers.value();
    const fabric::Endpoint receiver(domain, queue, theirs, fabric::Endpoint::Duty::receive);
    EXPECT_EQ(buffers.value() - before, domain.info().rx_attr->size);
    EXPECT_EQ(domain.info().rx_attr->size, 8192u);
}

/// Where shm is beside it, there is nothing to wait for, and memory is registered there, too.
TEST(FabricEfaEndpoint, CanBeWaitedFor) {
    for (const bool gpu_memory : {false, true}) {
        auto devices = fabric::discover("efa", fabric::parse_device_filter(one_of_a), gpu_memory);
        ASSERT_EQ(devices.size(), 1u);
        EXPECT_FALSE(devices.front().info->caps & FI_LOCAL_COMM);
        const fabric::Domain domain(std::make_shared<const fabric::Device>(std::move(devices.front())),
                                    "rail");
        const fabric::CompletionQueue queue(domain, 64, true);
        EXPECT_GE(queue.wait_fd(), 0);
    }
}

/// A process that is killed in efa's shared memory leaves its locks to who writes to it.
TEST(FabricEfaEndpoint, IsKeptFromSharedMemory) {
    auto devices = fabric::discover("efa", fabric::parse_device_filter(one_of_a));
    ASSERT_EQ(devices.size(), 1u);
    const fabric::Domain domain(std::make_shared<const fabric::Device>(std::move(devices.front())), "rail");
    fabric::CompletionQueue queue(domain, 64, false);
    fabric::AddressVector addresses(domain);
    fabric::Endpoint endpoint(const_cast<fabric::Domain&>(domain), queue, addresses);
    constexpr int opt_shared_memory_permitted = 11;
    bool permitted = true;
    std::size_t length = sizeof(permitted);
    ASSERT_EQ(fi_getopt(endpoint.handle(), FI_OPT_ENDPOINT, opt_shared_memory_permitted, &permitted, &length),
              0);
    EXPECT_FALSE(permitted);
}

}  // namespace
}  // namespace railyard::test
