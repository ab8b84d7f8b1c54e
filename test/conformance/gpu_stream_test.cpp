// Transfers of GPU memory that are ordered on streams of the fake driver, whose work sees what a GPU would
// see.
#include "gpu_side.h"
#include "stream/stream_transfers.h"
#include "unit/stream/program_stream.h"

namespace railyard::test {
namespace {

constexpr std::size_t place_size = 300'000;

/// Kernels that fill the memory, and that look at it.
void fill_on(const ProgramStream& stream, const Place& place, std::uint8_t value) {
    stream.launch([&place, value] {
        std::this_thread::sleep_for(std::chrono::microseconds(300));
        const std::vector<std::uint8_t> bytes(place_size, value);
        EXPECT_EQ(fake().gpu_write(place.address, bytes.data(), place_size), 0u);
    });
}
void look_on(const ProgramStream& stream, const Place& place, std::vector<std::uint8_t>& seen) {
    stream.launch([&] { seen = gpu_view(place); });
}

class GpuStreams : public testing::TestWithParam<GpuFabric> {
  protected:
    void SetUp() override { ASSERT_TRUE(fake()) << "the driver that was loaded is not the fake one"; }

    /// Over `peer`, whose memory `remote` is: what a kernel wrote arrives, and what arrives is seen by one.
    static void exchange(EnginePair& pair, StreamTransfers& streams, const std::string& peer,
                         const Place& local, const Place& remote, std::shared_ptr<RemoteRegion> region) {
        const ProgramStream stream(std::make_shared<cuda::PrimaryContext>(cuda_driver(), 0));
        const LocalDescriptor ours{local.address, place_size, &local.region};
        const RemoteDescriptor theirs{remote.address, place_size, &region};
        Transfer* push = pair.a->prepare(Operation::write, {&ours, 1}, {&theirs, 1}, peer, std::nullopt);
        Transfer* fetch = pair.a->prepare(Operation::read, {&ours, 1}, {&theirs, 1}, peer, std::nullopt);
        for (Transfer* transfer : {push, fetch})
            streams.attach(*transfer, stream.param());
        for (std::uint8_t step = 1; step <= 4; ++step) {
            SCOPED_TRACE("step " + std::to_string(step));
            fill_on(stream, local, step);
            ASSERT_EQ(pair.a->post(*push), Status::in_progress);
            ASSERT_EQ(pair.wait(*push), Status::ok);
            EXPECT_TRUE(remote.content() == std::vector<std::uint8_t>(place_size, step)) << "WRITE";
            std::vector<std::uint8_t> seen;
            fill_on(stream, local, 0);
            ASSERT_EQ(pair.a->post(*fetch), Status::in_progress);
            look_on(stream, local, seen);
            ASSERT_TRUE(pair.until([&] { return stream.idle(); }));
            EXPECT_TRUE(seen == std::vector<std::uint8_t>(place_size, step)) << "READ";
            ASSERT_EQ(pair.wait(*fetch), Status::ok);
        }
        pair.a->release(push);
        pair.a->release(fetch);
    }
};

TEST_P(GpuStreams, TransfersTakeTheirPlaceAmongKernels) {
    for (const int where : {0, 1, host}) {
        SCOPED_TRACE("to memory of " + std::to_string(where));
        EnginePair pair(GetParam().fabric, GetParam().fabric, GetParam().extra);
        StreamTransfers streams(*pair.a);
        {
            Place local(*pair.a, 0, place_size), remote(*pair.b, where, place_size);
            exchange(pair, streams, "beta", local, remote,
                     pair.a->load_remote_memory("beta", pair.b->memory_metadata(*remote.region),
                                                remote.address, remote.length));
            Place other(*pair.a, where, place_size);
            exchange(pair, streams, "alpha", local, other, pair.a->local_as_remote(other.region));
            for (Place* place : {&local, &other})
                place->drop(*pair.a);
            remote.drop(*pair.b);
        }
        streams.close();
        pair.a.reset();
    }
}

TEST_P(GpuStreams, AStreamOfAnotherGpuIsRefused) {
    EnginePair pair(GetParam().fabric, GetParam().fabric, GetParam().extra);
    StreamTransfers streams(*pair.a);
    {
        const ProgramStream stream(std::make_shared<cuda::PrimaryContext>(cuda_driver(), 1));
        Place local(*pair.a, 0, place_size), remote(*pair.a, host, place_size);
        const auto region = pair.a->local_as_remote(remote.region);
        const LocalDescriptor ours{local.address, place_size, &local.region};
        const RemoteDescriptor theirs{remote.address, place_size, &region};
        Transfer* transfer =
            pair.a->prepare(Operation::write, {&ours, 1}, {&theirs, 1}, "alpha", std::nullopt);
        expect_error(Status::invalid_param, "is on GPU 1, its memory on GPU 0",
                     [&] { streams.attach(*transfer, stream.param()); });
        pair.a->release(transfer);
        for (Place* place : {&local, &remote})
            place->drop(*pair.a);
    }
    streams.close();
    pair.a.reset();
}

INSTANTIATE_TEST_SUITE_P(Fabrics, GpuStreams, testing::ValuesIn(gpu_fabrics()), gpu_fabric_name);

}  // namespace
}  // namespace railyard::test
