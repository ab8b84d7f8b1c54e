// The program launches a kernel for the first time while a stream of its waits for READs: the driver holds
// the context's lock until the GPU has drained, and the GPU waits for us. Whoever drives the rails must not
// call the driver then.
#include "gpu_side.h"
#include "simulated_machine.h"
#include "stream/stream_transfers.h"
#include "unit/stream/first_launch.h"
#include "unit/stream/program_stream.h"

namespace railyard::test {
namespace {

constexpr std::size_t place_size = 64'000;

class LazyLoading : public testing::TestWithParam<Fabric> {
  protected:
    void SetUp() override { ASSERT_TRUE(fake()) << "the driver that was loaded is not the fake one"; }
};

/// Two READs on one stream, each of which takes longer than streams are left without a look: while the first
/// is under way, the stream has not come to the second.
TEST_P(LazyLoading, WhileAStreamWaitsForReadsHoldsNoneOfThemUp) {
    EnginePair pair(GetParam());
    StreamTransfers streams(*pair.a);
    {
        Place local(*pair.a, 0, 2 * place_size), remote(*pair.b, 1, 2 * place_size);
        remote.fill(7);
        const ProgramStream stream(std::make_shared<cuda::PrimaryContext>(cuda_driver(), 0));
        auto region = pair.publish(remote.region, remote.address, remote.length);
        std::vector<Transfer*> reads;
        for (const std::size_t offset : {std::size_t{0}, place_size}) {
            const LocalDescriptor ours{local.address + offset, place_size, &local.region};
            const RemoteDescriptor theirs{remote.address + offset, place_size, &region};
            reads.push_back(
                pair.a->prepare(Operation::read, {&ours, 1}, {&theirs, 1}, pair.target(), std::nullopt));
            streams.attach(*reads.back(), stream.param());
        }
        for (Transfer* transfer : reads)  // introductions, and what else only the first ones need
            ASSERT_EQ(pair.run(*transfer), Status::ok);
        const std::vector<std::uint8_t> nothing(local.length, 0);
        ASSERT_EQ(fake().gpu_write(local.address, nothing.data(), nothing.size()), 0u);

        const Disturbance slow("latency_us=150000");
        const std::size_t held_up = fake().statistics().held_up;
        for (Transfer* transfer : reads)
            ASSERT_EQ(pair.a->post(*transfer), Status::in_progress);
        FirstLaunch launch(stream.context(), 8'000);
        if (!GetParam().progress_thread) {
            for (Transfer* transfer : reads)
                EXPECT_EQ(pair.wait(*transfer), Status::ok);
        }
        EXPECT_EQ(launch.join(), unsigned{CUDA_SUCCESS}) << "the GPU waits for READs that nobody ends";
        for (Transfer* transfer : reads)
            EXPECT_EQ(pair.wait(*transfer), Status::ok);
        EXPECT_TRUE(gpu_view(local) == remote.content());
        EXPECT_GT(fake().statistics().held_up, held_up) << "nobody looked at the stream meanwhile";
        for (Transfer* transfer : reads)
            pair.a->release(transfer);
        local.drop(*pair.a);
        remote.drop(*pair.b);
    }
    streams.close();
    pair.a.reset();
}

INSTANTIATE_TEST_SUITE_P(Fabrics, LazyLoading,
                         testing::Values(Fabric{"efa-direct", 4, true}, Fabric{"efa-direct", 4, false},
                                         Fabric{"efa", 2, true}),
                         fabric_name);

}  // namespace
}  // namespace railyard::test
