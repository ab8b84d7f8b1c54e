// Memory that is deregistered while a transfer of it is being made.
#include <atomic>
#include <thread>

#include "engine_pair.h"
#include "manager/registration.h"

namespace railyard::test {
namespace {

class DeregistrationTest : public testing::TestWithParam<Fabric> {};

/// Each post looks for what has been deregistered since its handle was begun, however long that took.
TEST_P(DeregistrationTest, MemoryThatGoesWhileItsHandleIsPreparedIsNotUsed) {
    EnginePair pair(GetParam());
    Buffer source(*pair.a, 4096), target(*pair.b, 4096);
    const auto remote = pair.publish(target);
    constexpr std::size_t count = 200'000;
    std::vector<LocalDescriptor> from(count, source.local(0, 8));
    const std::vector<RemoteDescriptor> to(count, {target.address(), 8, &remote});
    Transfer* transfer = nullptr;
    for (int attempt = 0; attempt < 20 && !transfer; ++attempt) {
        Buffer going(*pair.a, 4096);
        from.front() = going.local(0, 8);
        std::atomic<bool> begun{false};
        std::thread preparing([&] {
            begun = true;
            try {
                transfer = pair.a->prepare(Operation::write, from, to, "beta", std::nullopt);
            } catch (const Error&) {
                // It was gone before the first look.
            }
        });
        while (!begun) {
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        pair.a->deregister_memory(going.region);
        preparing.join();
    }
    ASSERT_NE(transfer, nullptr);
    EXPECT_EQ(pair.a->post(*transfer), Status::invalid_param);
    pair.a->release(transfer);
}

TEST_P(DeregistrationTest, MemoryOfATransferThatIsBeingMadeIsNotDeregistered) {
    EnginePair pair(GetParam());
    Buffer buffer(*pair.a, 4096);
    buffer.region->pins = 1;
    std::atomic<bool> over{false};
    std::thread deregistering([&] {
        pair.a->deregister_memory(buffer.region);
        over = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_FALSE(over);
    buffer.region->pins = 0;
    deregistering.join();
    EXPECT_TRUE(over);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, DeregistrationTest,
                         testing::ValuesIn(fabrics({Fabric{"tcp", 1, false}, Fabric{"tcp", 4, false},
                                                    Fabric{"tcp", 4, true}, Fabric{"shm", 1, false},
                                                    Fabric{"shm", 4, true}})),
                         fabric_name);

}  // namespace
}  // namespace railyard::test
