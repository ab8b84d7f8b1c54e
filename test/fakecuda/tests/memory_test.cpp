// Memory of the fake driver: guard mode, the NIC's alias, attributes, virtual memory, dmabuf.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <numeric>

#include "fake.h"

namespace {

using Memory = WithContext;

TEST_F(Memory, DeathWhenAProcessorTouchesDeviceMemory) {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    const DeviceMemory memory(100);
    auto* touched = reinterpret_cast<volatile char*>(memory.address);
    EXPECT_DEATH(*touched = 1, "");
    EXPECT_DEATH(std::printf("%d", touched[99]), "");
}

TEST_F(Memory, CopiesBothWaysAndTheAliasSeesTheBytes) {
    std::vector<char> bytes(100000), back(bytes.size());
    std::iota(bytes.begin(), bytes.end(), 1);
    const DeviceMemory memory(bytes.size()), other(bytes.size());
    ASSERT_EQ(CU(cuMemcpyHtoD)(memory.address, bytes.data(), bytes.size()), CUDA_SUCCESS);
    EXPECT_EQ(std::memcmp(control().alias(memory.address, bytes.size()), bytes.data(), bytes.size()), 0);
    ASSERT_EQ(CU(cuMemcpyDtoD)(other.address, memory.address, bytes.size()), CUDA_SUCCESS);
    ASSERT_EQ(CU(cuMemcpyDtoH)(back.data(), other.address, bytes.size()), CUDA_SUCCESS);
    EXPECT_EQ(back, bytes);
    ASSERT_EQ(CU(cuMemsetD8)(other.address + 10, 7, 5), CUDA_SUCCESS);
    ASSERT_EQ(CU(cuMemcpy)(reinterpret_cast<CUdeviceptr>(back.data()), other.address, 20), CUDA_SUCCESS);
    EXPECT_EQ(back[9], bytes[9]);
    EXPECT_EQ(back[14], 7);
    EXPECT_EQ(back[15], bytes[15]);
}

TEST_F(Memory, AliasAndCopiesEndWithTheAllocation) {
    const DeviceMemory memory(1000);
    char host[1001];
    EXPECT_NE(control().alias(memory.address, 1000), nullptr);
    EXPECT_NE(control().alias(memory.address + 999, 1), nullptr);
    EXPECT_EQ(control().alias(memory.address, 1001), nullptr);
    EXPECT_EQ(control().alias(memory.address - 1, 1), nullptr);
    EXPECT_EQ(control().alias(reinterpret_cast<unsigned long long>(host), 1), nullptr);
    EXPECT_EQ(CU(cuMemcpyDtoH)(host, memory.address, 1001), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuMemFree)(memory.address + 1), CUDA_ERROR_INVALID_VALUE);
}

template <class T>
T attribute(CUdeviceptr address, CUpointer_attribute which) {
    T value{};
    EXPECT_EQ(CU(cuPointerGetAttribute)(&value, which, address), CUDA_SUCCESS);
    return value;
}

TEST_F(Memory, AttributesOfDeviceMemory) {
    const DeviceMemory memory(5000);
    const CUdeviceptr inside = memory.address + 4000;
    EXPECT_EQ(attribute<CUcontext>(inside, CU_POINTER_ATTRIBUTE_CONTEXT), context);
    EXPECT_EQ(attribute<CUmemorytype>(inside, CU_POINTER_ATTRIBUTE_MEMORY_TYPE), CU_MEMORYTYPE_DEVICE);
    EXPECT_EQ(attribute<int>(inside, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL), 0);
    EXPECT_EQ(attribute<CUdeviceptr>(inside, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR), memory.address);
    EXPECT_EQ(attribute<std::size_t>(inside, CU_POINTER_ATTRIBUTE_RANGE_SIZE), 5000U);
    EXPECT_EQ(attribute<int>(inside, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE), 1);
    EXPECT_EQ(attribute<unsigned>(inside, CU_POINTER_ATTRIBUTE_IS_MANAGED), 0U);
    EXPECT_NE(attribute<std::uint64_t>(inside, CU_POINTER_ATTRIBUTE_BUFFER_ID), 0U);
    const int on = 1;
    EXPECT_EQ(CU(cuPointerSetAttribute)(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, inside), CUDA_SUCCESS);
    EXPECT_EQ(attribute<int>(inside, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS), 1);
    int local = 0, ordinal = 0;
    EXPECT_EQ(CU(cuPointerGetAttribute)(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                        reinterpret_cast<CUdeviceptr>(&local)),
              CUDA_ERROR_INVALID_VALUE);
    CUmemorytype type = CU_MEMORYTYPE_DEVICE;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void* values[] = {&type, &ordinal};
    EXPECT_EQ(CU(cuPointerGetAttributes)(2, which, values, reinterpret_cast<CUdeviceptr>(&local)),
              CUDA_SUCCESS);
    EXPECT_EQ(static_cast<unsigned>(type), 0U);
    EXPECT_EQ(ordinal, -2);
}

TEST_F(Memory, ManagedPoolAndHostMemoryAreTold) {
    CUdeviceptr managed = 0, pool = 0;
    ASSERT_EQ(CU(cuMemAllocManaged)(&managed, 64, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    EXPECT_EQ(attribute<unsigned>(managed, CU_POINTER_ATTRIBUTE_IS_MANAGED), 1U);
    *reinterpret_cast<char*>(managed) = 5;  // the processor may
    EXPECT_EQ(CU(cuMemFree)(managed), CUDA_SUCCESS);

    const TestStream stream;
    ASSERT_EQ(CU(cuMemAllocAsync)(&pool, 64, stream.handle), CUDA_SUCCESS);
    EXPECT_NE(attribute<std::uint64_t>(pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE), 0U);
    EXPECT_EQ(attribute<int>(pool, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE), 0);
    EXPECT_EQ(CU(cuMemFreeAsync)(pool, stream.handle), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuStreamSynchronize)(stream.handle), CUDA_SUCCESS);

    const HostMemory pinned(100);
    EXPECT_EQ(attribute<CUmemorytype>(pinned.address + 99, CU_POINTER_ATTRIBUTE_MEMORY_TYPE),
              CU_MEMORYTYPE_HOST);
    char own[256];
    EXPECT_EQ(CU(cuMemHostRegister)(own, sizeof(own), CU_MEMHOSTREGISTER_DEVICEMAP), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuMemHostRegister)(own, 1, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    unsigned flags = 0;
    EXPECT_EQ(CU(cuMemHostGetFlags)(&flags, own + 5), CUDA_SUCCESS);
    EXPECT_EQ(flags, unsigned{CU_MEMHOSTREGISTER_DEVICEMAP});
    EXPECT_EQ(CU(cuMemHostUnregister)(own), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuMemHostUnregister)(own), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

struct VirtualMemory {
    static constexpr std::size_t unit = std::size_t{2} << 20;
    CUdeviceptr address = 0;
    std::size_t count;
    explicit VirtualMemory(std::size_t mappings) : count(mappings) {
        EXPECT_EQ(CU(cuMemAddressReserve)(&address, count * unit, 0, 0, 0), CUDA_SUCCESS);
        for (std::size_t i = 0; i < count; ++i)
            map(i, true);
    }
    void map(std::size_t at, bool gpu_direct) const {
        CUmemAllocationProp properties{};
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
        properties.allocFlags.gpuDirectRDMACapable = gpu_direct;
        CUmemGenericAllocationHandle handle = 0;
        EXPECT_EQ(CU(cuMemCreate)(&handle, unit, &properties, 0), CUDA_SUCCESS);
        EXPECT_EQ(CU(cuMemMap)(address + at * unit, unit, 0, handle, 0), CUDA_SUCCESS);
        EXPECT_EQ(CU(cuMemRelease)(handle), CUDA_SUCCESS);
    }
    void unmap(std::size_t at) const { EXPECT_EQ(CU(cuMemUnmap)(address + at * unit, unit), CUDA_SUCCESS); }
    void grant() const {
        const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        EXPECT_EQ(CU(cuMemSetAccess)(address, count * unit, &access, 1), CUDA_SUCCESS);
    }
    ~VirtualMemory() {
        EXPECT_EQ(CU(cuMemUnmap)(address, count * unit), CUDA_SUCCESS);
        EXPECT_EQ(CU(cuMemAddressFree)(address, count * unit), CUDA_SUCCESS);
    }
};

TEST_F(Memory, VirtualMemoryIsToldAndCopiedAcrossMappings) {
    const VirtualMemory memory(2);
    const CUdeviceptr seam = memory.address + VirtualMemory::unit;
    memory.grant();
    EXPECT_EQ(attribute<int>(seam, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE), 0);
    EXPECT_EQ(attribute<CUdeviceptr>(seam + 1, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR), seam);
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(CU(cuMemRetainAllocationHandle)(&handle, reinterpret_cast<void*>(seam)), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuMemRelease)(handle), CUDA_SUCCESS);
    char bytes[] = "over the seam", back[sizeof(bytes)] = {};
    ASSERT_EQ(CU(cuMemcpyHtoD)(seam - 5, bytes, sizeof(bytes)), CUDA_SUCCESS);
    ASSERT_EQ(CU(cuMemcpyDtoH)(back, seam - 5, sizeof(back)), CUDA_SUCCESS);
    EXPECT_STREQ(back, bytes);
    EXPECT_EQ(std::memcmp(control().alias(seam - 5, 5), bytes, 5), 0);
    EXPECT_EQ(control().alias(seam - 5, 6), nullptr);
    const DeviceMemory plain(64);
    EXPECT_NE(CU(cuMemRetainAllocationHandle)(&handle, reinterpret_cast<void*>(plain.address)), CUDA_SUCCESS);
}

TEST_F(Memory, VirtualMemoryWithoutAccessFails) {
    const VirtualMemory memory(1);
    EXPECT_EQ(CU(cuMemsetD8)(memory.address, 1, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/// A dma-buf of the range; -1 with the driver's answer.
int export_of(CUdeviceptr address, std::size_t bytes, CUresult expected = CUDA_SUCCESS) {
    int fd = -1;
    EXPECT_EQ(CU(cuMemGetHandleForAddressRange)(&fd, address, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
              expected)
        << bytes;
    return fd;
}

TEST_F(Memory, DmaBufHasTheBytesOfItsPages) {
    const DeviceMemory memory(10000);
    const std::size_t offset = memory.address % 4096;
    const CUdeviceptr first = memory.address - offset;
    ASSERT_NE(offset, 0U);  // small allocations do not start with a page
    const std::size_t bytes = (offset + 10000 + 4095) / 4096 * 4096;
    export_of(memory.address, 4096, CUDA_ERROR_INVALID_VALUE);
    export_of(first, 4095, CUDA_ERROR_INVALID_VALUE);
    export_of(first, bytes + 4096, CUDA_ERROR_INVALID_VALUE);
    export_of(first - 4096, bytes, CUDA_ERROR_INVALID_VALUE);
    ASSERT_EQ(CU(cuMemsetD8)(memory.address, 0x42, 10000), CUDA_SUCCESS);
    const int whole = export_of(first, bytes), part = export_of(first + 4096, 4096);
    char* seen = static_cast<char*>(control().map_dmabuf(whole, 0, bytes));
    ASSERT_NE(seen, MAP_FAILED);
    EXPECT_EQ(seen[offset], 0x42);
    EXPECT_EQ(seen[offset + 9999], 0x42);
    EXPECT_EQ(seen[offset - 1], 0);
    char* second = static_cast<char*>(control().map_dmabuf(part, 0, 4096));
    ASSERT_NE(second, MAP_FAILED);
    second[7] = 5;
    EXPECT_EQ(seen[4096 + 7], 5);
    EXPECT_EQ(control().map_dmabuf(part, 0, 4097), MAP_FAILED);
    EXPECT_EQ(control().map_dmabuf(part, 4096, 1), MAP_FAILED);
    EXPECT_EQ(control().map_dmabuf(0, 0, 4096), nullptr) << "none of the driver's";
    munmap(seen, bytes);
    munmap(second, 4096);
    close(whole);
    close(part);
}

TEST_F(Memory, DmaBufIsOfOneOfTwoWindowsWhereThereAreTwo) {
    const DeviceMemory memory(10000);
    const CUdeviceptr first = memory.address / 4096 * 4096;
    const auto window = [&](unsigned long long flags, CUresult expected) {
        int fd = -1;
        EXPECT_EQ(
            CU(cuMemGetHandleForAddressRange)(&fd, first, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags),
            expected);
        unsigned long long bridge = 0;
        const unsigned which = control().dmabuf_window(fd, &bridge);
        // Above the GPU of a p5.48xl that comes first here, at 86:00.0.
        EXPECT_EQ(bridge, fd < 0 ? 0 : 1ULL << 63 | 0x77ULL << 16) << flags;
        if (fd >= 0) close(fd);
        return which;
    };
    constexpr unsigned long long bar1 = CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE;
    EXPECT_EQ(window(0, CUDA_SUCCESS), 0U);
    window(bar1, CUDA_ERROR_NOT_SUPPORTED);
    window(2, CUDA_ERROR_INVALID_VALUE);
    control().set_c2c(1);
    EXPECT_EQ(window(0, CUDA_SUCCESS), 1U);
    EXPECT_EQ(window(bar1, CUDA_SUCCESS), 2U);
    window(2, CUDA_ERROR_INVALID_VALUE);
    control().set_c2c(0);
    unsigned long long bridge = 1;
    EXPECT_EQ(control().dmabuf_window(0, &bridge), 0U);
    EXPECT_EQ(bridge, 0U);
}

TEST_F(Memory, DmaBufGoesOverMappingsOfOneKind) {
    const VirtualMemory memory(3);
    constexpr std::size_t unit = VirtualMemory::unit;
    memory.grant();
    ASSERT_EQ(CU(cuMemsetD8)(memory.address + unit - 10, 9, unit + 20), CUDA_SUCCESS);
    const int fd = export_of(memory.address + unit - 4096, unit + 8192);
    char* seen = static_cast<char*>(control().map_dmabuf(fd, 0, unit + 8192));
    ASSERT_NE(seen, MAP_FAILED);
    for (const std::size_t at : {std::size_t{4086}, std::size_t{4096}, unit + 4095, unit + 4105})
        EXPECT_EQ(seen[at], 9) << at;
    EXPECT_EQ(seen[4085], 0);
    EXPECT_EQ(seen[unit + 4106], 0);
    munmap(seen, unit + 8192);
    close(fd);

    memory.unmap(2);
    close(export_of(memory.address, 2 * unit));
    export_of(memory.address, 3 * unit, CUDA_ERROR_INVALID_VALUE);
    memory.map(2, false);
    export_of(memory.address, 3 * unit, CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, WhatIsReservedAndNotMappedIsNotCopied) {
    const VirtualMemory memory(1);
    memory.grant();
    char bytes[100] = {};
    memory.unmap(0);
    for (const bool in : {true, false}) {
        const CUdeviceptr here = reinterpret_cast<CUdeviceptr>(bytes), there = memory.address + 5;
        EXPECT_EQ(CU(cuMemcpy)(in ? there : here, in ? here : there, sizeof(bytes)),
                  CUDA_ERROR_INVALID_VALUE);
    }
    memory.map(0, true);
}

TEST_F(Memory, ACopyStaysInsideOfItsAllocation) {
    control().set_adjoining(1);
    const DeviceMemory first(1024), second(2000), third(10);
    control().set_adjoining(0);
    EXPECT_EQ(first.address + 1024, second.address);
    EXPECT_EQ(second.address + 2048, third.address);
    char bytes[1025] = {};
    const CUdeviceptr host = reinterpret_cast<CUdeviceptr>(bytes);
    EXPECT_EQ(CU(cuMemcpy)(first.address, host, 1024), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuMemcpy)(first.address, host, 1025), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuMemcpy)(host, second.address + 1999, 2), CUDA_ERROR_INVALID_VALUE);
    const HostMemory pinned(4096);
    EXPECT_EQ(CU(cuMemcpy)(second.address, pinned.address + 4000, 96), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuMemcpy)(second.address, pinned.address + 4000, 97), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(CU(cuMemsetD8)(third.address, 1, 10), CUDA_SUCCESS);
}

TEST_F(Memory, WithoutRoomOrContext) {
    CUdeviceptr address = 0;
    EXPECT_EQ(CU(cuMemAlloc)(&address, std::size_t{1} << 50), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(CU(cuMemAlloc)(&address, 0), CUDA_ERROR_INVALID_VALUE);
    std::thread([] {
        CUdeviceptr here = 0;
        EXPECT_EQ(CU(cuMemAlloc)(&here, 10), CUDA_ERROR_INVALID_CONTEXT);
    }).join();
}

}  // namespace
