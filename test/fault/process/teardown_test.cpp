// Ends in every order: engines before or after each other, their registrations, their transfers and their
// peers. Whatever the order, no thread and no file descriptor is left.
#include <gtest/gtest.h>

#include <tuple>

#include "left_open.h"
#include "traffic.h"

namespace railyard::test {
namespace {

enum class First { initiator, target };
enum class Regions { deregistered, left, outlive };
enum class Transfers { ended, released_in_flight, kept_in_flight };

using Order = std::tuple<Fabric, First, Regions, Transfers>;

class TeardownTest : public testing::TestWithParam<Order> {};

void end(Traffic& traffic, First first, Regions regions) {
    for (const bool second : {false, true}) {
        const bool initiator = (first == First::initiator) != second;
        Buffer& buffer = initiator ? traffic.source : traffic.target;
        std::shared_ptr<Engine>& engine = initiator ? traffic.pair.a : traffic.pair.b;
        if (regions == Regions::deregistered) {
            try {
                engine->deregister_memory(buffer.region);
            } catch (const Error& error) {
                EXPECT_EQ(error.status(), Status::not_allowed) << error.what();
            }
        }
        if (regions != Regions::outlive) buffer.region.reset();
        engine.reset();
    }
}

TEST_P(TeardownTest, LeavesNothing) {
    const auto& [fabric, first, regions, transfers] = GetParam();
    const ParamMap patience{{"connect_timeout_ms", "500"}};
    { Traffic(fabric, 65536, patience).round(); }  // libraries may open something once and for all
    const Left before;
    {
        Traffic traffic(fabric, std::size_t{2} << 20, patience);
        traffic.round();
        if (transfers != Transfers::ended) {
            const Status posted = traffic.post();
            EXPECT_TRUE(posted == Status::in_progress || posted == Status::ok) << to_string(posted);
        }
        if (transfers != Transfers::kept_in_flight) traffic.pair.a->release(traffic.transfer);
        end(traffic, first, regions);
    }
    EXPECT_TRUE(comes_back_to(before)) << Left().threads << " threads, " << before.threads << " before; "
                                       << Left().files << " files, " << before.files << " before";
}

INSTANTIATE_TEST_SUITE_P(
    Orders, TeardownTest,
    testing::Combine(testing::ValuesIn(fabrics({Fabric{"tcp", 2, true}, Fabric{"shm", 1, false}})),
                     testing::Values(First::initiator, First::target),
                     testing::Values(Regions::deregistered, Regions::left, Regions::outlive),
                     testing::Values(Transfers::ended, Transfers::released_in_flight,
                                     Transfers::kept_in_flight)));

class PeerTeardownTest : public testing::TestWithParam<Fabric> {};

/// Peers end one after the other with transfers to them under way; the last one is served all the same.
TEST_P(PeerTeardownTest, PeersThatEndUnderTransfersHoldUpNobodyElse) {
    const Fabric fabric = GetParam();
    const ParamMap patience{{"connect_timeout_ms", "1000"}};
    Traffic healthy(fabric, std::size_t{1} << 20, patience);
    Engine& a = *healthy.pair.a;
    healthy.round();
    std::vector<Transfer*> unlucky;
    std::vector<std::unique_ptr<Buffer>> targets;  // as long as what is written to them
    for (int i = 0; i < 4; ++i) {
        const std::string name = "gamma" + std::to_string(i);
        auto gamma = make_engine(name, fabric, patience);
        auto& target = *targets.emplace_back(std::make_unique<Buffer>(*gamma, std::size_t{1} << 20));
        a.load_connection_info(name, gamma->connection_info());
        const auto remote =
            a.load_remote_memory(name, gamma->memory_metadata(*target.region), target.address(), 1 << 20);
        const LocalDescriptor from = healthy.source.local(0, 1 << 20);
        const RemoteDescriptor to{target.address(), 1 << 20, &remote};
        unlucky.push_back(a.prepare(Operation::write, {&from, 1}, {&to, 1}, name, "never read"));
        const Status posted = a.post(*unlucky.back());
        EXPECT_TRUE(posted == Status::in_progress || posted == Status::ok) << to_string(posted);
        gamma.reset();
        healthy.round();
    }
    for (Transfer* transfer : unlucky) {
        Status status = Status::in_progress;
        EXPECT_TRUE(healthy.pair.until([&] { return (status = a.poll(*transfer)) != Status::in_progress; }));
        EXPECT_TRUE(status == Status::ok || status == Status::remote_disconnect || status == Status::backend)
            << to_string(status);
        a.release(transfer);
        healthy.round();
    }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, PeerTeardownTest, testing::ValuesIn(process_fabrics()), fabric_name);

}  // namespace
}  // namespace railyard::test
