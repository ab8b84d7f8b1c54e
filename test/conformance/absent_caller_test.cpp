// Programs without a progress thread that do something else for longer than any patience.
#include <chrono>
#include <thread>

#include "engine_pair.h"

namespace railyard::test {
namespace {

class AbsentCallerTest : public testing::TestWithParam<Fabric> {};

/// What the peer would have taken meanwhile is not known: that nobody asked is no fault of its own.
TEST_P(AbsentCallerTest, AFirstTransferWaitsForItsPeerAllTheSame) {
    constexpr std::size_t size = 1 << 20;
    EnginePair pair(GetParam(), GetParam(), {{"connect_timeout_ms", "300"}});
    Buffer source(*pair.a, size), target(*pair.b, size);
    fill_pattern(source.bytes, 1);
    const auto remote = pair.publish(target);
    const LocalDescriptor from = source.local(0, size);
    const RemoteDescriptor to{target.address(), size, &remote};
    Transfer* const transfer = pair.a->prepare(Operation::write, {&from, 1}, {&to, 1}, "beta", "done");
    Status status = pair.a->post(*transfer);
    for (int i = 0; i < 3 && status == Status::in_progress; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        status = pair.a->poll(*transfer);
    }
    if (status == Status::in_progress) status = pair.wait(*transfer);
    EXPECT_EQ(status, Status::ok);
    EXPECT_EQ(pair.notifications(1).size(), 1u);
    EXPECT_EQ(target.bytes, source.bytes);
    pair.a->release(transfer);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, AbsentCallerTest,
                         testing::ValuesIn(fabrics({{"tcp", 1}, {"tcp", 2}, {"tcp", 1, true}, {"shm", 1}})),
                         fabric_name);

}  // namespace
}  // namespace railyard::test
