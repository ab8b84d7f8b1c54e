// Transfers of an engine's GPU memory to itself, which its GPUs copy.
#include "gpu_transfers.h"

namespace railyard::test {
namespace {

class GpuSelf : public GpuMemory {};

TEST_P(GpuSelf, SelfTransfersAreCopiedByTheDevice) {
    const auto engine = make_engine("alone", GetParam().fabric, GetParam().extra);
    for (const Pairing pairing : pairings) {
        for (const Operation operation : {Operation::write, Operation::read}) {
            SCOPED_TRACE(describe({operation, pairing}));
            constexpr std::size_t length = 700'000;
            Place local(*engine, pairing.local, length), remote(*engine, pairing.remote, length);
            const bool write = operation == Operation::write;
            (write ? local : remote).fill(9);
            const auto region = engine->local_as_remote(remote.region);
            const LocalDescriptor here[] = {{local.address + 5, length - 5, &local.region}};
            const RemoteDescriptor there[] = {{remote.address, length - 5, &region}};
            Transfer* transfer = engine->prepare(operation, here, there, "alone", "done");
            ASSERT_EQ(run_alone(*engine, *transfer), Status::ok);
            if (write) {
                expect_moved(local, remote, 5, 0, length - 5);
            } else {
                expect_moved(remote, local, 0, 5, length - 5);
            }
            engine->release(transfer);
            local.drop(*engine);
            remote.drop(*engine);
        }
    }
}

TEST_P(GpuSelf, PagesOfAnotherContextAreMoved) {
    const auto engine = make_engine("alone", GetParam().fabric, GetParam().extra);
    constexpr std::size_t page = 4096, count = 16, length = 2 * page * count;
    const ForeignMemory pages(length, 11);
    std::shared_ptr<Registration> region =
        engine->register_memory(pages.address, length, 0, MemoryType::device);
    Place target(*engine, 0, length);
    const auto remote = engine->local_as_remote(target.region);
    std::vector<LocalDescriptor> from;
    std::vector<RemoteDescriptor> to;
    for (std::size_t i = 0; i < count; ++i) {
        from.push_back({pages.address + 2 * i * page, page, &region});
        to.push_back({target.address + 2 * i * page, page, &remote});
    }
    Transfer* transfer = engine->prepare(Operation::write, from, to, "alone", std::nullopt);
    ASSERT_EQ(run_alone(*engine, *transfer), Status::ok);
    const std::vector<std::uint8_t> moved = target.content();
    for (std::size_t i = 0; i < length; ++i)
        ASSERT_EQ(moved[i], i / page % 2 == 0 ? pages.bytes[i] : 0) << i;
    engine->release(transfer);
    target.drop(*engine);
    engine->deregister_memory(region);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, GpuSelf, testing::ValuesIn(gpu_fabrics()), gpu_fabric_name);

}  // namespace
}  // namespace railyard::test
