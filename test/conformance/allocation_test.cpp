// In steady state a repost allocates nothing: every allocation of the process goes through this counter.
#include <gtest/gtest.h>

#include <cstdlib>

#include "allocation_counter.h"
#include "stats_directory.h"

namespace railyard::test {
namespace {

/// Of messages, see ARepostAsAMessageAllocatesNothing.
const ParamMap as_operations{{"eager_limit", "0"}};

class AllocationTest : public testing::TestWithParam<Fabric> {};

/// Allocations of `rounds` reposts with their completion, and of taking in what they notify.
long allocations_of(EnginePair& pair, Transfer& transfer, int rounds, const std::string* notification) {
    allocations.store(0);
    counting.store(true);
    for (int i = 0; i < rounds; ++i) {
        Status status = pair.a->post(transfer, notification);
        while (status == Status::in_progress) {
            pair.b->progress();
            status = pair.a->poll(transfer);
        }
        EXPECT_EQ(status, Status::ok);
    }
    counting.store(false);
    return allocations.load();
}

TEST_P(AllocationTest, TheCounterCounts) {
    allocations.store(0);
    counting.store(true);
    const auto value = std::make_unique<std::string>(100, 'x');
    counting.store(false);
    EXPECT_GE(allocations.load(), 2);
}

/// Reposts of many small and many larger descriptors, both ways.
void expect_no_allocations(EnginePair& pair) {
    constexpr std::size_t count = 64;
    constexpr std::size_t block = 8192;
    Buffer source(*pair.a, count * block);
    Buffer target(*pair.b, count * block);
    const auto remote = pair.publish(target);
    // Larger ones first: over loopback new connections are looked for until 2 MiB have gone over a rail.
    for (std::size_t length : {block, std::size_t{8}}) {
        std::vector<LocalDescriptor> from;
        std::vector<RemoteDescriptor> to;
        for (std::size_t i = 0; i < count; ++i) {
            from.push_back(source.local(i * block, length));
            to.push_back({target.address() + i * block, length, &remote});
        }
        for (Operation operation : {Operation::write, Operation::read}) {
            Transfer* transfer = pair.a->prepare(operation, from, to, "beta", std::nullopt);
            allocations_of(pair, *transfer, length == block ? 2000 : 20,
                           nullptr);  // providers fill pools, too
            EXPECT_EQ(allocations_of(pair, *transfer, 200, nullptr), 0) << length;
            pair.a->release(transfer);
        }
    }
}

TEST_P(AllocationTest, ARepostAllocatesNothing) {
    EnginePair pair(GetParam(), GetParam(), as_operations);
    expect_no_allocations(pair);
}

/// What is measured of a peer, where statistics are told, is made when a transfer to it is prepared.
TEST_P(AllocationTest, ARepostAllocatesNothingWhereStatisticsAreTold) {
    const StatsDirectory stats;
    ParamMap params = stats.params();
    params.insert(as_operations.begin(), as_operations.end());
    EnginePair pair(GetParam(), GetParam(), params);
    expect_no_allocations(pair);
    const PeerTrafficReport beta = traffic_with(stats.read_anew("alpha", pair), "beta");
    EXPECT_EQ(beta.transfers_written, 220u + 2200);
    EXPECT_EQ(beta.transfers_read, 220u + 2200);
    EXPECT_EQ(beta.write_latency.count(), 28u + 2200) << "one in eight small ones, and each of the others";
    EXPECT_EQ(beta.read_latency.count(), 28u + 2200);
}

/// On the side that posts; whoever takes a message and keeps its notification needs room for it.
TEST_P(AllocationTest, ARepostAsAMessageAllocatesNothing) {
    if (GetParam().provider != "tcp") GTEST_SKIP() << "goes as a message over tcp alone";
    EnginePair pair(GetParam());
    Buffer source(*pair.a, 4096), target(*pair.b, 4096);
    const auto remote = pair.publish(target);
    std::vector<LocalDescriptor> from;
    std::vector<RemoteDescriptor> to;
    for (std::size_t i = 0; i < 16; ++i) {
        from.push_back(source.local(i * 256, 100));
        to.push_back({target.address() + i * 256, 100, &remote});
    }
    const auto operations = [&] {
        std::uint64_t sum = 0;
        for (const RailCounters& rail : pair.a->rail_counters())
            sum += rail.operations[0] + rail.operations[1];
        return sum;
    };
    for (const Operation operation : {Operation::write, Operation::read}) {
        Transfer* const transfer = pair.a->prepare(operation, from, to, "beta", "some notification");
        std::uint64_t before = 0;
        for (int round = 0; round < 300; ++round) {
            if (round == 100) {
                before = operations();
                allocations.store(0);
            }
            counting.store(true);
            Status status = pair.a->post(*transfer);
            while (status == Status::in_progress) {
                counting.store(false);
                pair.b->progress();
                counting.store(true);
                status = pair.a->poll(*transfer);
            }
            counting.store(false);
            ASSERT_EQ(status, Status::ok);
        }
        EXPECT_EQ(allocations.load(), 0) << (operation == Operation::read ? "READ" : "WRITE");
        EXPECT_EQ(operations(), before) << "it did not go as a message";
        pair.a->release(transfer);
    }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, AllocationTest,
                         testing::ValuesIn(fabrics({Fabric{"tcp", 1, false}, Fabric{"tcp", 4, false},
                                                    Fabric{"shm", 1, false}, Fabric{"shm", 4, false}})),
                         fabric_name);

}  // namespace
}  // namespace railyard::test
