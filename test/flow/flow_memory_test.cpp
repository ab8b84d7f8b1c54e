// What flows cost in memory: nothing a grain, and nothing for those who came and went.
#include <gtest/gtest.h>
#include <malloc.h>

#include "flow_program.h"

#include "../allocation_counter.h"

namespace railyard::flow::test {
namespace {

constexpr std::size_t ring_size = 4;
/// Several units over several rails.
constexpr std::size_t grain_length = 700'001;

class FlowMemory : public testing::TestWithParam<Fabric> {
  protected:
    /// Grains sent and taken, each whole; false where one does not come.
    static bool send(Initiator& initiator, Target& target, std::uint32_t grains) {
        for (std::uint32_t i = 0; i < grains; ++i) {
            const std::uint32_t index = i % ring_size;
            initiator.ring.fill(index, static_cast<unsigned char>(i));
            if (ryf_initiator_transfer_grain(initiator.handle, index) != RYF_OK) return false;
            ryf_grain grain{};
            if (ryf_target_wait_for_new_grain(target.handle, &grain, 20'000) != RYF_OK) return false;
            if (!target.ring.holds(index, static_cast<unsigned char>(i))) return false;
            if (initiator.settle() != RYF_OK) return false;
        }
        return true;
    }
    static long allocations_of(Initiator& initiator, Target& target, std::uint32_t grains) {
        allocations.store(0);
        counting.store(true);
        const bool sent = send(initiator, target, grains);
        counting.store(false);
        EXPECT_TRUE(sent) << ryf_last_error();
        return allocations.load();
    }
    /// Providers fill their pools first, shm of libfabric 2.1 one by one.
    static bool settles_at_none(Initiator& initiator, Target& target) {
        for (int attempt = 0; attempt < 20; ++attempt) {
            if (allocations_of(initiator, target, 100) == 0) return true;
        }
        return false;
    }
    Instance instance_;
};

TEST_P(FlowMemory, TheCounterCounts) {
    allocations.store(0);
    counting.store(true);
    const auto value = std::make_unique<std::string>(100, 'x');
    counting.store(false);
    EXPECT_GE(allocations.load(), 2);
}

TEST_P(FlowMemory, AGrainAllocatesNothing) {
    Target target(instance_, GetParam(), ring_size, grain_length);
    Target other(instance_, GetParam(), ring_size, grain_length);
    Initiator initiator(instance_, GetParam(), ring_size, grain_length);
    initiator.add(target);
    EXPECT_TRUE(settles_at_none(initiator, target));
    initiator.add(other);
    EXPECT_TRUE(settles_at_none(initiator, target)) << "to two targets";
}

TEST_P(FlowMemory, InitiatorsThatComeAndGoLeaveNothingBehind) {
    if (GetParam().provider == RYF_PROVIDER_SHM)
        GTEST_SKIP() << "shm keeps closed endpoints as long as others of the process are open";
    Target target(instance_, GetParam(), ring_size, 1000);
    const auto come_and_go = [&](int times) {
        for (int i = 0; i < times; ++i) {
            Initiator initiator(instance_, GetParam(), ring_size, 1000);
            initiator.add(target);
            ASSERT_TRUE(send(initiator, target, 1)) << ryf_last_error();
        }
        ryf_grain grain{};
        while (!target.sources().empty() && target.sources().back().connected)
            ASSERT_NE(ryf_target_wait_for_new_grain(target.handle, &grain, 1), RYF_OK);
    };
    come_and_go(60);  // every source number has been given
    // We keep the name of each instance for a while, so that late messages are known; net of libfabric before
    // 1.18 never frees an fi_info of each endpoint and connection (docs/gotchas.md).
    const bool datagrams = GetParam().provider == RYF_PROVIDER_TCP && GetParam().endpoint != RYF_ENDPOINT_MSG;
    const std::size_t room = datagrams ? GetParam().rails * 8192 : 2048;
    // A pool of libfabric's grows now and then, by up to 500 KB, for good: what is left behind is so each
    // time.
    std::size_t before = 0, after = SIZE_MAX;
    for (int tries = 0; tries < 3 && after >= before + 60 * room; ++tries) {
        before = mallinfo2().uordblks;
        come_and_go(60);
        after = mallinfo2().uordblks;
    }
    EXPECT_LT(after, before + 60 * room)
        << (static_cast<long>(after) - static_cast<long>(before)) / 60 << " bytes an initiator";
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FlowMemory, testing::ValuesIn(fabrics()), name_of);

}  // namespace
}  // namespace railyard::flow::test
