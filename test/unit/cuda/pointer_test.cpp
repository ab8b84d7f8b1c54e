// What addresses are, which ranges may be registered, and their dmabufs.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

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

/// Mappings of the devices, one after the other in one reserved range. NICs may reach none from
/// `unreachable_from` on.
class Mappings {
  public:
    explicit Mappings(std::vector<int> devices, std::size_t unreachable_from = SIZE_MAX)
        : devices_(std::move(devices)) {
        EXPECT_EQ(CU(cuMemAddressReserve)(&address, devices_.size() * unit, 0, 0, 0), CUDA_SUCCESS);
        for (std::size_t i = 0; i < devices_.size(); ++i) {
            CUmemAllocationProp properties{};
            properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
            properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
            properties.location.id = devices_[i];
            properties.allocFlags.gpuDirectRDMACapable = i < unreachable_from;
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
        {
            const ContextGuard guard(*held);
            EXPECT_TRUE(set_sync_memops(driver(), address));
        }
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
    const Mappings mapping({0});
    EXPECT_FALSE(set_sync_memops(driver(), mapping.address));
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

/// `length` bytes of the descriptor at `address`, as a NIC reaches them.
std::vector<char> bytes_of(const DmaBuf& dmabuf, std::uint64_t address, std::size_t length) {
    const std::uint64_t offset = dmabuf.offset_of(address), inside = offset % 4096;
    void* pages = fake().map_dmabuf(dmabuf.fd(), offset - inside, inside + length);
    EXPECT_NE(pages, nullptr);
    EXPECT_NE(pages, MAP_FAILED);
    if (!pages || pages == MAP_FAILED) return {};
    const char* first = static_cast<const char*>(pages) + inside;
    std::vector<char> bytes(first, first + length);
    munmap(pages, inside + length);
    return bytes;
}

std::uint64_t size_of(const DmaBuf& dmabuf) {
    struct stat file {};
    EXPECT_EQ(fstat(dmabuf.fd(), &file), 0);
    return static_cast<std::uint64_t>(file.st_size);
}

TEST_F(CudaPointer, ADmaBufHoldsTheBytes) {
    const ContextPtr held = context();
    const Device device = list_devices(driver())[0];
    const DeviceBuffer memory(held, 10000);
    const std::uint64_t inside = memory.address() + 5000;
    int fd = -1;
    {
        DmaBufExport made = export_dmabuf(*held, device, describe_range(driver(), inside, 1), inside, 1);
        ASSERT_TRUE(made.dmabuf) << made.absent_because;
        const DmaBuf moved = std::move(*made.dmabuf);
        fd = moved.fd();
        const char byte = 77;
        ASSERT_EQ(fake().gpu_write(inside, &byte, 1), 0U);
        EXPECT_EQ(bytes_of(moved, inside, 1), std::vector<char>({77}));
    }
    EXPECT_EQ(fcntl(fd, F_GETFD), -1);  // closed
}

/// NICs map all of a dmabuf, each one by itself.
TEST_F(CudaPointer, ADmaBufHasThePagesOfTheRangeAndNoOthers) {
    const ContextPtr held = context();
    const Device device = list_devices(driver())[0];
    const DeviceBuffer memory(held, std::size_t{1} << 20);
    const std::vector<char> bytes = pattern(std::size_t{1} << 20, 3);
    fill(memory, bytes);
    const std::size_t offset = 100'001, length = 20'000;
    const std::uint64_t address = memory.address() + offset;
    DmaBufExport made =
        export_dmabuf(*held, device, describe_range(driver(), address, length), address, length);
    ASSERT_TRUE(made.dmabuf) << made.absent_because;
    EXPECT_EQ(made.dmabuf->base(), address / 4096 * 4096);
    EXPECT_EQ(size_of(*made.dmabuf), pages_of(address, length, 4096).length);
    EXPECT_EQ(bytes_of(*made.dmabuf, address, length),
              std::vector<char>(bytes.begin() + offset, bytes.begin() + offset + length));
    // A driver may insist on all of the allocation.
    fake().fail("cuMemGetHandleForAddressRange", 1, CUDA_ERROR_INVALID_VALUE);
    made = export_dmabuf(*held, device, describe_range(driver(), address, length), address, length);
    ASSERT_TRUE(made.dmabuf) << made.absent_because;
    EXPECT_EQ(made.dmabuf->base(), memory.address() / 4096 * 4096);
    EXPECT_GE(size_of(*made.dmabuf), std::size_t{1} << 20);
    EXPECT_EQ(bytes_of(*made.dmabuf, address, length),
              std::vector<char>(bytes.begin() + offset, bytes.begin() + offset + length));
}

TEST_F(CudaPointer, ADmaBufHoldsSeveralMappings) {
    const ContextPtr held = context();
    const Device device = list_devices(driver())[0];
    const Mappings mappings({0, 0, 0, 1});
    const std::uint64_t address = mappings.address + unit - 5000;
    const std::vector<char> bytes = pattern(unit + 10'000, 5);
    ASSERT_EQ(fake().gpu_write(address, bytes.data(), bytes.size()), 0U);
    const PointerInfo info = describe_range(driver(), address, bytes.size());
    ASSERT_EQ(info.mappings, 3U);
    const DmaBufExport made = export_dmabuf(*held, device, info, address, bytes.size());
    ASSERT_TRUE(made.dmabuf) << made.absent_because;
    EXPECT_EQ(made.dmabuf->base(), mappings.address + unit - 8192);
    EXPECT_EQ(size_of(*made.dmabuf), unit + 2 * 8192);
    EXPECT_TRUE(bytes_of(*made.dmabuf, address, bytes.size()) == bytes);
    EXPECT_TRUE(bytes_of(*made.dmabuf, address + 7000, unit) ==
                std::vector<char>(bytes.begin() + 7000, bytes.begin() + 7000 + unit));
}

/// Of a GPU that NICs reach in two ways, as they do on GB200.
TEST_F(CudaPointer, ADmaBufIsOfTheWindowAskedForWhereThereAreTwo) {
    const ContextPtr held = context();
    const Device device = list_devices(driver())[0];
    const DeviceBuffer memory(held, std::size_t{1} << 20);
    const std::uint64_t address = memory.address() + 100'000, length = 20'000;
    const PointerInfo info = describe_range(driver(), address, length);
    const auto window = [](const DmaBufExport& made) {
        unsigned long long bridge = 0;
        return made.dmabuf ? static_cast<int>(fake().dmabuf_window(made.dmabuf->fd(), &bridge)) : -1;
    };
    const auto made = [&](DmaBufMapping mapping) {
        return export_dmabuf(*held, device, info, address, length, mapping);
    };
    DmaBufExport pcie = made(DmaBufMapping::pcie);
    EXPECT_EQ(window(pcie), 0) << "there is one";
    EXPECT_EQ(pcie.mapping, DmaBufMapping::usual);
    EXPECT_EQ(size_of(*pcie.dmabuf), pages_of(address, length, 4096).length);
    fake().set_c2c(1);
    EXPECT_EQ(window(made(DmaBufMapping::usual)), 1);
    pcie = made(DmaBufMapping::pcie);
    EXPECT_EQ(window(pcie), 2);
    EXPECT_EQ(pcie.mapping, DmaBufMapping::pcie);
    // Rather all of the allocation than the other window.
    fake().fail("cuMemGetHandleForAddressRange", 1, CUDA_ERROR_INVALID_VALUE);
    pcie = made(DmaBufMapping::pcie);
    EXPECT_EQ(window(pcie), 2);
    EXPECT_GE(size_of(*pcie.dmabuf), std::size_t{1} << 20);
    fake().fail("cuMemGetHandleForAddressRange", 1, CUDA_ERROR_INVALID_VALUE);
    fake().fail("cuMemGetHandleForAddressRange", 2, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(window(made(DmaBufMapping::pcie)), -1) << "there is no room for all of it";
    fake().fail("cuMemGetHandleForAddressRange", 0, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(window(made(DmaBufMapping::pcie)), -1);
    EXPECT_CONTAINS(made(DmaBufMapping::pcie).absent_because, "CUDA_ERROR_OUT_OF_MEMORY");
    fake().fail_nothing();
    fake().set_c2c(0);
}

TEST_F(CudaPointer, WithoutADmaBufThereIsAReason) {
    const ContextPtr held = context();
    Device device = list_devices(driver())[0];
    const DeviceBuffer memory(held, 100);
    const PointerInfo info = describe_range(driver(), memory.address(), 1);
    const auto reason = [&](const PointerInfo& what, std::uint64_t address, std::uint64_t length) {
        const DmaBufExport made = export_dmabuf(*held, device, what, address, length);
        EXPECT_FALSE(made.dmabuf);
        return made.absent_because;
    };
    fake().fail("cuMemGetHandleForAddressRange", 0, CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(reason(info, memory.address(), 1),
              "cuMemGetHandleForAddressRange: CUDA_ERROR_NOT_SUPPORTED (operation not supported)");
    fake().fail_nothing();
    // Their memory is not of one kind, which the driver wants.
    const Mappings unlike({0, 0}, 1);
    EXPECT_CONTAINS(reason(describe_range(driver(), unlike.address, 2 * unit), unlike.address, 2 * unit),
                    "2 mappings");
    EXPECT_TRUE(
        export_dmabuf(*held, device, describe_range(driver(), unlike.address, unit), unlike.address, unit)
            .dmabuf);
    device.dma_buf = false;
    EXPECT_CONTAINS(reason(info, memory.address(), 1), "has no dmabuf");
}

}  // namespace
}  // namespace railyard::cuda
