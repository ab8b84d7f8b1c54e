// What addresses are, which ranges may be registered, and their dmabufs.
#include <fcntl.h>
#include <sys/mman.h>

#include "cuda/device.h"
#include "cuda/dmabuf.h"
#include "cuda/pinned_memory.h"
#include "cuda/pointer_info.h"
#include "on_fake_driver.h"

namespace railyard::cuda {
namespace {

using CudaPointer = OnFakeDriver;

constexpr std::size_t unit = std::size_t{2} << 20;

template <class Function>
Function fake_function(const char* name) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void* found = dlsym(library, name);
    EXPECT_NE(found, nullptr) << name;
    return reinterpret_cast<Function>(found);
}
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define CU(name) fake_function<decltype(&name)>(TEXT(name))

/// Mappings of the devices, one after the other in one reserved range.
class Mappings {
  public:
    explicit Mappings(std::vector<int> devices) : devices_(std::move(devices)) {
        EXPECT_EQ(CU(cuMemAddressReserve)(&address, devices_.size() * unit, 0, 0, 0), CUDA_SUCCESS);
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            CUmemAllocationProp properties{};
            properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
            properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
            properties.location.id = devices_[i];
            properties.allocFlags.gpuDirectRDMACapable = 1;
            CUmemGenericAllocationHandle handle = 0;
            EXPECT_EQ(CU(cuMemCreate)(&handle, unit, &properties, 0), CUDA_SUCCESS);
            EXPECT_EQ(CU(cuMemMap)(address + i * unit, unit, 0, handle, 0), CUDA_SUCCESS);
            EXPECT_EQ(CU(cuMemRelease)(handle), CUDA_SUCCESS);
        }
    }
    ~Mappings() {
        EXPECT_EQ(CU(cuMemUnmap)(address, devices_.size() * unit), CUDA_SUCCESS);
        EXPECT_EQ(CU(cuMemAddressFree)(address, devices_.size() * unit), CUDA_SUCCESS);
    }
    Mappings(const Mappings&) = delete;
    Mappings& operator=(const Mappings&) = delete;
    CUdeviceptr address = 0;

  private:
    std::vector<int> devices_;
};

TEST_F(CudaPointer, DeviceMemory) {
    const ContextPtr held = context(1);
    std::uint64_t address = 0, first_id = 0;
    {
        const DeviceBuffer memory(held, 1000);
        address = memory.address();
        const PointerInfo info = describe_range(driver(), address + 999, 1);
        EXPECT_EQ(info.kind, MemoryKind::plain);
        EXPECT_EQ(info.device, 1);
        EXPECT_EQ(info.start, address);
        EXPECT_EQ(info.length, 1000U);
        EXPECT_EQ(info.context, held->get());
        EXPECT_TRUE(info.gpu_direct_capable);
        EXPECT_TRUE(set_sync_memops(driver(), address));
        first_id = info.buffer_id;
        const DeviceBuffer other(held, 1000);
        EXPECT_NE(describe_range(driver(), other.address(), 1).buffer_id, first_id);
    }
    EXPECT_EQ(describe_range(driver(), address, 1).kind, MemoryKind::unknown);
}

TEST_F(CudaPointer, HostPoolAndManagedMemory) {
    int local = 0;
    EXPECT_EQ(describe_range(driver(), reinterpret_cast<std::uint64_t>(&local), 4).kind, MemoryKind::unknown);
    const ContextPtr held = context();
    const PinnedMemory pinned(held, 100);
    EXPECT_EQ(describe_range(driver(), pinned.device_address(), 100).kind, MemoryKind::host);
    const ContextGuard guard(*held);
    CUdeviceptr managed = 0, pool = 0;
    ASSERT_EQ(CU(cuMemAllocManaged)(&managed, 100, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    ASSERT_EQ(CU(cuMemAllocAsync)(&pool, 100, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(describe_range(driver(), managed, 100).kind, MemoryKind::managed);
    EXPECT_EQ(describe_range(driver(), pool, 100).kind, MemoryKind::pool);
    EXPECT_FALSE(set_sync_memops(driver(), pool));
    EXPECT_EQ(driver().mem_free(managed), CUDA_SUCCESS);
    EXPECT_EQ(driver().mem_free(pool), CUDA_SUCCESS);
}

TEST_F(CudaPointer, VirtualMemoryOverAdjoiningMappings) {
    const Mappings mappings({0, 0, 1});
    PointerInfo info = describe_range(driver(), mappings.address + 100, 1000);
    EXPECT_EQ(info.kind, MemoryKind::virtual_memory);
    EXPECT_EQ(info.mappings, 1U);
    EXPECT_EQ(info.length, unit);
    info = describe_range(driver(), mappings.address + 100, 2 * unit - 100);
    EXPECT_EQ(info.mappings, 2U);
    EXPECT_EQ(info.start, mappings.address);
    EXPECT_EQ(info.length, 2 * unit);
    EXPECT_NO_THROW(require_device_range(info, mappings.address + 100, 2 * unit - 100, 0));
    // The third lies on another device.
    info = describe_range(driver(), mappings.address, 2 * unit + 1);
    EXPECT_EQ(info.mappings, 2U);
    EXPECT_EQ(error_of([&] { require_device_range(info, mappings.address, 2 * unit + 1, 0); }).first,
              Status::invalid_param);
}

TEST_F(CudaPointer, AFailingDriverIsAnError) {
    fake().fail("cuPointerGetAttributes", 1, CUDA_ERROR_UNKNOWN);
    const auto [status, message] = error_of([&] { static_cast<void>(describe_range(driver(), 4096, 1)); });
    EXPECT_EQ(status, Status::backend);
    EXPECT_CONTAINS(message, "cuPointerGetAttributes: CUDA_ERROR_UNKNOWN");
}

PointerInfo plain(std::uint64_t start, std::uint64_t length) {
    PointerInfo info;
    info.kind = MemoryKind::plain;
    info.device = 2;
    info.start = start;
    info.length = length;
    return info;
}

TEST(CudaRange, InsideItsAllocation) {
    const PointerInfo info = plain(1000, 500);
    EXPECT_NO_THROW(require_device_range(info, 1000, 500, 2));
    EXPECT_NO_THROW(require_device_range(info, 1499, 1, 2));
    const std::pair<std::uint64_t, std::uint64_t> outside[] = {{999, 1},
                                                               {1000, 501},
                                                               {1499, 2},
                                                               {1500, 0},
                                                               {1400, ~std::uint64_t{0}},
                                                               {1400, ~std::uint64_t{0} - 1300}};
    for (const auto& [address, length] : outside) {
        const auto [status, message] =
            error_of([&, at = address, bytes = length] { require_device_range(info, at, bytes, 2); });
        EXPECT_EQ(status, Status::invalid_param) << address << " " << length;
        EXPECT_CONTAINS(message, "leaves its allocation");
    }
}

TEST(CudaRange, OfTheRightKindAndDevice) {
    PointerInfo info = plain(0, 100);
    EXPECT_CONTAINS(error_of([&] { require_device_range(info, 0, 1, 0); }).second, "device 2, not 0");
    info.kind = MemoryKind::managed;
    EXPECT_EQ(error_of([&] { require_device_range(info, 0, 1, 2); }).first, Status::not_supported);
    info.kind = MemoryKind::host;
    EXPECT_CONTAINS(error_of([&] { require_device_range(info, 0, 1, 2); }).second, "register it as DRAM");
    info.kind = MemoryKind::unknown;
    EXPECT_EQ(error_of([&] { require_device_range(info, 0, 1, 2); }).first, Status::invalid_param);
    for (const MemoryKind kind : {MemoryKind::pool, MemoryKind::virtual_memory}) {
        info.kind = kind;
        EXPECT_NO_THROW(require_device_range(info, 0, 1, 2)) << to_string(kind);
    }
}

TEST(CudaDmaBuf, IsAskedForWholePages) {
    auto expect = [](PageRange pages, std::uint64_t start, std::uint64_t length) {
        EXPECT_EQ(pages.start, start);
        EXPECT_EQ(pages.length, length);
    };
    expect(pages_of(8192, 4096, 4096), 8192, 4096);
    expect(pages_of(8193, 4095, 4096), 8192, 4096);
    expect(pages_of(8193, 4096, 4096), 8192, 8192);
    expect(pages_of(100, 1, 65536), 0, 65536);
}

TEST_F(CudaPointer, ADmaBufHoldsTheBytes) {
    const ContextPtr held = context();
    const Device device = list_devices(driver())[0];
    const DeviceBuffer memory(held, 10000);
    const std::uint64_t inside = memory.address() + 5000;
    int fd = -1;
    {
        DmaBufExport made = export_dmabuf(*held, device, describe_range(driver(), inside, 1));
        ASSERT_TRUE(made.dmabuf) << made.absent_because;
        const DmaBuf moved = std::move(*made.dmabuf);
        fd = moved.fd();
        const char byte = 77;
        ASSERT_EQ(fake().gpu_write(inside, &byte, 1), 0U);
        const std::uint64_t offset = moved.offset_of(inside);
        void* pages = mmap(nullptr, offset + 1, PROT_READ, MAP_SHARED, fd, 0);
        ASSERT_NE(pages, MAP_FAILED);
        EXPECT_EQ(static_cast<char*>(pages)[offset], 77);
        munmap(pages, offset + 1);
    }
    EXPECT_EQ(fcntl(fd, F_GETFD), -1);  // closed
}

TEST_F(CudaPointer, WithoutADmaBufThereIsAReason) {
    const ContextPtr held = context();
    Device device = list_devices(driver())[0];
    const DeviceBuffer memory(held, 100);
    const PointerInfo info = describe_range(driver(), memory.address(), 1);
    fake().fail("cuMemGetHandleForAddressRange", 1, CUDA_ERROR_NOT_SUPPORTED);
    DmaBufExport made = export_dmabuf(*held, device, info);
    EXPECT_FALSE(made.dmabuf);
    EXPECT_EQ(made.absent_because,
              "cuMemGetHandleForAddressRange: CUDA_ERROR_NOT_SUPPORTED (operation not supported)");
    const Mappings mappings({0, 0});
    made = export_dmabuf(*held, device, describe_range(driver(), mappings.address, 2 * unit));
    EXPECT_FALSE(made.dmabuf);
    EXPECT_CONTAINS(made.absent_because, "2 mappings");
    EXPECT_TRUE(export_dmabuf(*held, device, describe_range(driver(), mappings.address, unit)).dmabuf);
    device.dma_buf = false;
    EXPECT_CONTAINS(export_dmabuf(*held, device, info).absent_because, "has no dmabuf");
}

}  // namespace
}  // namespace railyard::cuda
