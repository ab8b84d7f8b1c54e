// Flows from and to memory of GPUs, on the fake driver: reached by the NICs, seen late, or staged.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "cuda/context_guard.h"
#include "cuda/driver.h"
#include "flow_program.h"

namespace railyard::flow::test {
namespace {

const cuda::Driver& driver() {
    static const cuda::DriverLookup found = cuda::find_driver();
    return *found.driver;
}

/// A ring in the memory of GPU 0.
struct GpuRing {
    GpuRing(std::size_t count, std::size_t bytes) : length(bytes), context(driver(), 0) {
        const cuda::ContextGuard guard(context);
        EXPECT_EQ(driver().mem_alloc(&memory, count * length), CUDA_SUCCESS);
        EXPECT_EQ(driver().memset_d8(memory, 0, count * length), CUDA_SUCCESS);
        std::vector<ryf_region> list;
        for (std::size_t i = 0; i < count; ++i)
            list.push_back({reinterpret_cast<void*>(memory + i * length), length, RYF_MEMORY_CUDA, 0});
        EXPECT_RYF(ryf_regions_create(list.data(), list.size(), &regions));
    }
    ~GpuRing() {
        ryf_regions_destroy(regions);
        const cuda::ContextGuard guard(context);
        EXPECT_EQ(driver().mem_free(memory), CUDA_SUCCESS);
    }
    GpuRing(const GpuRing&) = delete;
    GpuRing& operator=(const GpuRing&) = delete;

    void fill(std::size_t index, unsigned char seed) {
        const cuda::ContextGuard guard(context);
        EXPECT_EQ(driver().memset_d8(memory + index * length, seed, length), CUDA_SUCCESS);
    }
    [[nodiscard]] bool holds(std::size_t index, unsigned char seed) {
        std::vector<unsigned char> copy(length);
        const cuda::ContextGuard guard(context);
        EXPECT_EQ(
            driver().memcpy(reinterpret_cast<CUdeviceptr>(copy.data()), memory + index * length, length),
            CUDA_SUCCESS);
        return std::all_of(copy.begin(), copy.end(), [&](unsigned char byte) { return byte == seed; });
    }

    std::size_t length;
    cuda::PrimaryContext context;
    CUdeviceptr memory = 0;
    ryf_regions* regions = nullptr;
};

class FlowGpu : public testing::TestWithParam<Fabric> {
  protected:
    /// Whole grains, then slices, each looked at in the moment in which it is announced.
    template <class SourceRing, class TargetRing>
    void play() {
        constexpr std::size_t ring_size = 3, length = 700'001;
        constexpr std::uint32_t slices = 4;
        Instance instance;
        BasicTarget<TargetRing> target(instance, GetParam(), ring_size, length, slices);
        BasicInitiator<SourceRing> initiator(instance, GetParam(), ring_size, length);
        initiator.add(target);
        for (std::uint32_t i = 0; i < 12; ++i) {
            const std::uint32_t index = i % ring_size;
            const auto seed = static_cast<unsigned char>(i + 1);
            initiator.ring.fill(index, seed);
            for (std::uint32_t slice = 0; i >= 6 && slice < slices; ++slice)
                ASSERT_RYF(ryf_initiator_transfer_slices(initiator.handle, index, slice, slice));
            if (i < 6) {
                ASSERT_RYF(ryf_initiator_transfer_grain(initiator.handle, index));
            }
            const ryf_grain grain = target.next();
            EXPECT_EQ(grain.index, index);
            EXPECT_TRUE(target.ring.holds(index, seed)) << "announced before it was seen, " << i;
            ASSERT_RYF(initiator.settle());
        }
        EXPECT_EQ(target.sources().at(0).lost, 0u);
    }
};

TEST_P(FlowGpu, HostToGpu) {
    play<Ring, GpuRing>();
}
TEST_P(FlowGpu, GpuToHost) {
    play<GpuRing, Ring>();
}
TEST_P(FlowGpu, GpuToGpu) {
    play<GpuRing, GpuRing>();
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FlowGpu, testing::ValuesIn(fabrics()), name_of);

}  // namespace
}  // namespace railyard::flow::test
