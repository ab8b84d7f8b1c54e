// In steady state a repost allocates nothing: every allocation of the process goes through this counter.
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine_pair.h"

#include "allocation_counter.h"

namespace railyard::test {
namespace {

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

TEST_P(AllocationTest, ARepostAllocatesNothing) {
    EnginePair pair(GetParam());
    constexpr std::size_t count = 64;
    constexpr std::size_t block = 8192;
    Buffer source(*pair.a, count * block);
    Buffer target(*pair.b, count * block);
    const auto remote = pair.publish(target);
    for (std::size_t length : {std::size_t{8}, block}) {
        std::vector<LocalDescriptor> from;
        std::vector<RemoteDescriptor> to;
        for (std::size_t i = 0; i < count; ++i) {
            from.push_back(source.local(i * block, length));
            to.push_back({target.address() + i * block, length, &remote});
        }
        for (Operation operation : {Operation::write, Operation::read}) {
            Transfer* transfer = pair.a->prepare(operation, from, to, "beta", std::nullopt);
            allocations_of(pair, *transfer, 20, nullptr);  // the provider fills its pools
            EXPECT_EQ(allocations_of(pair, *transfer, 200, nullptr), 0) << length;
            pair.a->release(transfer);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, AllocationTest,
                         testing::ValuesIn(fabrics({Fabric{"tcp", 1, false}, Fabric{"tcp", 4, false},
                                                    Fabric{"shm", 1, false}, Fabric{"shm", 4, false}})),
                         fabric_name);

}  // namespace
}  // namespace railyard::test
