// Virtual memory, as expandable segments have it: whether the driver makes one dmabuf of several mappings,
// and what becomes of copies once it is unmapped.
#include <dlfcn.h>
#include <unistd.h>

#include <utility>

#include "cuda/device.h"
#include "cuda/dmabuf.h"
#include "cuda/driver.h"
#include "suite.h"

namespace railyard::gpu {
namespace {

using host::Op;
using host::Range;

template <class Function>
Function driver_function(const char* name) {
    void* found = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), name);
    EXPECT_NE(found, nullptr) << name;
    return reinterpret_cast<Function>(found);
}
#define CU(name) driver_function<decltype(&name)>(#name)

/// Mappings of the suite's GPU, one after the other in one reserved range.
class Mappings {
  public:
    static constexpr std::size_t unit = std::size_t{2} << 20;

    explicit Mappings(std::size_t count) : length(count * unit) {
        CUdeviceptr reserved = 0;
        require(CU(cuMemAddressReserve)(&reserved, length, 0, 0, 0), "cuMemAddressReserve");
        address = reserved;
        map();
    }
    ~Mappings() {
        unmap();
        EXPECT_EQ(CU(cuMemAddressFree)(address, length), CUDA_SUCCESS);
    }
    Mappings(const Mappings&) = delete;
    Mappings& operator=(const Mappings&) = delete;

    void map() {
        const CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, static_cast<int>(setup().gpu)};
        CUmemAllocationProp properties{};
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = here;
        properties.allocFlags.gpuDirectRDMACapable = 1;
        for (std::size_t at = 0; at < length; at += unit) {
            CUmemGenericAllocationHandle handle = 0;
            require(CU(cuMemCreate)(&handle, unit, &properties, 0), "cuMemCreate");
            require(CU(cuMemMap)(address + at, unit, 0, handle, 0), "cuMemMap");
            require(CU(cuMemRelease)(handle), "cuMemRelease");
        }
        const CUmemAccessDesc access{here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        require(CU(cuMemSetAccess)(address, length, &access, 1), "cuMemSetAccess");
        mapped_ = true;
    }
    void unmap() {
        if (std::exchange(mapped_, false)) {
            EXPECT_EQ(CU(cuMemUnmap)(address, length), CUDA_SUCCESS);
        }
    }
    [[nodiscard]] Range range() const { return {address, length, std::uint64_t{setup().gpu} + 1}; }

    std::uint64_t address = 0;
    const std::size_t length;

  private:
    static void require(unsigned result, const char* call) { gpu().require(result, call); }
    bool mapped_ = false;
};

using VirtualMemory = OnGpu;

TEST_F(VirtualMemory, OneDmabufHoldsSeveralMappings) {
    const cuda::Device device = cuda::list_devices(gpu().driver()).at(setup().gpu);
    if (!device.dma_buf) GTEST_SKIP() << "the GPU has no dmabufs";
    const Mappings memory(4);
    const std::uint64_t address = memory.address + Mappings::unit - 4096, length = 2 * Mappings::unit;
    const cuda::PointerInfo info = cuda::describe_range(gpu().driver(), address, length);
    EXPECT_EQ(info.mappings, 3U);
    const cuda::DmaBufExport made = cuda::export_dmabuf(*gpu().context(), device, info, address, length);
    ASSERT_TRUE(made.dmabuf) << made.absent_because;
    EXPECT_EQ(made.dmabuf->base(), address) << "the driver gives all the mappings alone";
    EXPECT_EQ(lseek(made.dmabuf->fd(), 0, SEEK_END), static_cast<off_t>(length));
}

/// Small pieces, which a kernel would copy in other memory.
TEST_F(VirtualMemory, CopiesOfWhatWasUnmappedAreRefusedAndTheGpuGoesOn) {
    constexpr std::size_t count = 16, page = 4096;
    host::Agent agent(agent_config("alone"));
    Mappings memory(1);
    const Buffer target(true, 2 * count * page);
    agent.register_memory(memory.range());
    agent.register_memory(target.range());
    std::vector<Range> from, to;
    for (std::size_t i = 0; i < count; ++i) {
        from.push_back({memory.address + 2 * i * page, page, memory.range().device});
        to.push_back(target.range(2 * i * page, page));
    }
    host::Request request = agent.prepare(Op::write, from, to, "alone", std::nullopt, {});
    EXPECT_EQ(request.run(patience), Status::ok);
    memory.unmap();
    EXPECT_EQ(request.run(patience), Status::backend);
    memory.map();
    const std::vector<std::byte> bytes = contents(7, memory.length);
    gpu().copy(memory.address, reinterpret_cast<std::uint64_t>(bytes.data()), bytes.size());
    for (int i = 0; i < 8; ++i)  // on each of the streams
        EXPECT_EQ(request.run(patience), Status::ok);
    const std::vector<std::byte> moved = target.bytes();
    for (std::size_t i = 0; i < moved.size(); ++i)
        ASSERT_EQ(moved[i], i / page % 2 == 0 ? bytes[i] : std::byte{}) << i;
    agent.deregister_memory(memory.range());
    agent.deregister_memory(target.range());
}

}  // namespace
}  // namespace railyard::gpu
