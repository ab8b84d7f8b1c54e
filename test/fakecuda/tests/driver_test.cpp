// Devices, contexts, look-up of functions, failures on demand, and writes that the GPU sees late.
#include <cstdlib>
#include <cstring>

#include "../driver/settings.h"
#include "fake.h"

namespace {

using Driver = WithContext;

bool late() {
    const char* text = std::getenv("FAKECUDA_LATE");
    return text && *text == '1';
}

TEST(Visible, ListsOrdinalsInTheirOrder) {
    using Ordinals = std::vector<std::size_t>;
    EXPECT_EQ(fakecuda::visible_devices(nullptr, 3), (Ordinals{0, 1, 2}));
    EXPECT_EQ(fakecuda::visible_devices("2,0", 3), (Ordinals{2, 0}));
    EXPECT_EQ(fakecuda::visible_devices("1,7,0", 3), (Ordinals{1}));
    EXPECT_EQ(fakecuda::visible_devices("1,x", 3), (Ordinals{1}));
    EXPECT_EQ(fakecuda::visible_devices("", 3), (Ordinals{}));
    EXPECT_EQ(fakecuda::visible_devices("1,1", 3), (Ordinals{}));
}

TEST(Start, NothingWorksBeforeInit) {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    EXPECT_EXIT(
        {
            int count = 0;
            std::exit(CU(cuDeviceGetCount)(&count) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
        },
        testing::ExitedWithCode(0), "");
}

TEST(Start, NoDevicesAreAnError) {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    EXPECT_EXIT(
        {
            setenv("CUDA_VISIBLE_DEVICES", "", 1);
            std::exit(CU(cuInit)(0) == CUDA_ERROR_NO_DEVICE ? 0 : 1);
        },
        testing::ExitedWithCode(0), "");
}

TEST(Start, FailuresOfTheEnvironment) {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    EXPECT_EXIT(
        {
            setenv("FAKECUDA_FAIL", "cuDeviceGetCount:2=999,cuDeviceGet:1=3", 1);
            int value = 0;
            bool right =
                CU(cuInit)(0) == CUDA_SUCCESS && CU(cuDeviceGet)(&value, 0) == CUDA_ERROR_NOT_INITIALIZED;
            right = right && CU(cuDeviceGetCount)(&value) == CUDA_SUCCESS;
            right = right && CU(cuDeviceGetCount)(&value) == CUDA_ERROR_UNKNOWN;
            std::exit(right && CU(cuDeviceGetCount)(&value) == CUDA_SUCCESS ? 0 : 1);
        },
        testing::ExitedWithCode(0), "");
}

TEST_F(Driver, DevicesAreThoseOfTheMachine) {
    // p5.48xl, with CUDA_VISIBLE_DEVICES=3,1,0: see meson.build.
    int count = 0;
    ASSERT_EQ(CU(cuDeviceGetCount)(&count), CUDA_SUCCESS);
    ASSERT_EQ(count, 3);
    char text[32];
    ASSERT_EQ(CU(cuDeviceGetPCIBusId)(text, sizeof(text), 0), CUDA_SUCCESS);
    EXPECT_STREQ(text, "0000:86:00.0");
    ASSERT_EQ(CU(cuDeviceGetPCIBusId)(text, sizeof(text), 2), CUDA_SUCCESS);
    EXPECT_STREQ(text, "0000:53:00.0");
    EXPECT_EQ(CU(cuDeviceGetPCIBusId)(text, 5, 2), CUDA_ERROR_INVALID_VALUE);
    int value = 0;
    ASSERT_EQ(CU(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1), CUDA_SUCCESS);
    EXPECT_EQ(value, 0x64);
    CUdevice device = -1;
    EXPECT_EQ(CU(cuDeviceGetByPCIBusId)(&device, "00000000:64:00.0"), CUDA_SUCCESS);
    EXPECT_EQ(device, 1);
    EXPECT_EQ(CU(cuDeviceGet)(&device, 3), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(Driver, ContextsAreCurrentPerThread) {
    CUcontext own = nullptr, current = nullptr;
    ASSERT_EQ(CU(cuCtxCreate_v2)(&own, 0, 1), CUDA_SUCCESS);
    CU(cuCtxGetCurrent)(&current);
    EXPECT_EQ(current, own);
    CUdevice device = -1;
    CU(cuCtxGetDevice)(&device);
    EXPECT_EQ(device, 1);
    std::thread([] {
        CUcontext there = nullptr;
        EXPECT_EQ(CU(cuCtxGetCurrent)(&there), CUDA_SUCCESS);
        EXPECT_EQ(there, nullptr);
    }).join();
    EXPECT_EQ(CU(cuCtxDestroy)(own), CUDA_SUCCESS);
    CU(cuCtxGetCurrent)(&current);
    EXPECT_EQ(current, context);
    EXPECT_EQ(CU(cuCtxPushCurrent)(own), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(Driver, APrimaryContextTakesItsOwnAlong) {
    CUcontext other = nullptr;
    ASSERT_EQ(CU(cuDevicePrimaryCtxRetain)(&other, 2), CUDA_SUCCESS);
    CU(cuCtxPushCurrent)(other);
    CUdeviceptr memory = 0;
    CUstream stream = nullptr;
    CU(cuMemAlloc)(&memory, 100);
    CU(cuStreamCreate)(&stream, 0);
    CU(cuStreamWaitValue64)(stream, memory / 8 * 8, 1, 0);  // for ever
    CU(cuCtxPopCurrent)(nullptr);
    EXPECT_EQ(CU(cuDevicePrimaryCtxRelease)(2), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuStreamQuery)(stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(control().alias(memory, 100), nullptr);
    EXPECT_EQ(CU(cuDevicePrimaryCtxRelease)(2), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_TRUE(eventually([] { return control().statistics().draining_streams == 0; }));
}

TEST_F(Driver, FunctionsAreFoundByTheirPlainNames) {
    void* found = nullptr;
    CUdriverProcAddressQueryResult status{};
    ASSERT_EQ(CU(cuGetProcAddress)("cuMemAlloc", &found, 12000, 0, &status), CUDA_SUCCESS);
    EXPECT_EQ(found, fake_function("cuMemAlloc_v2"));
    ASSERT_EQ(CU(cuGetProcAddress)("cuInit", &found, 12000, 0, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(found, fake_function("cuInit"));
    EXPECT_EQ(CU(cuGetProcAddress)("cuNothing", &found, 12000, 0, &status), CUDA_ERROR_NOT_FOUND);
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    const char* name = nullptr;
    EXPECT_EQ(CU(cuGetErrorName)(CUDA_ERROR_OUT_OF_MEMORY, &name), CUDA_SUCCESS);
    EXPECT_STREQ(name, "CUDA_ERROR_OUT_OF_MEMORY");
}

TEST_F(Driver, FailsOnDemand) {
    CUdeviceptr memory = 0;
    control().fail("cuMemAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY);
    {
        const DeviceMemory first(10);
        EXPECT_EQ(CU(cuMemAlloc)(&memory, 10), CUDA_ERROR_OUT_OF_MEMORY);
        const DeviceMemory third(10);
    }
    control().fail("cuMemAlloc", 0, CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(CU(cuMemAlloc)(&memory, 10), CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(CU(cuMemAlloc)(&memory, 10), CUDA_ERROR_UNKNOWN);
    control().fail("cuMemAlloc", 0, 0);
    const DeviceMemory last(10);
    std::size_t free = 0, total = 0;
    EXPECT_EQ(CU(cuMemGetInfo)(&free, &total), CUDA_SUCCESS);
    EXPECT_EQ(total - free, 10U);
}

TEST_F(Driver, AnyCallFailsOnDemandButThoseThatGiveBack) {
    std::size_t free = 0, total = 0;
    const auto look = [&] { return CU(cuMemGetInfo)(&free, &total); };
    for (const bool lasting : {false, true}) {
        CUdeviceptr memory = 0, other = 0;
        ASSERT_EQ(CU(cuMemAlloc)(&memory, 10), CUDA_SUCCESS);
        control().fail_any(2, CUDA_ERROR_UNKNOWN, lasting);
        EXPECT_EQ(control().any_failed(), nullptr);
        EXPECT_EQ(look(), CUDA_SUCCESS);
        EXPECT_EQ(CU(cuMemFree)(memory), CUDA_SUCCESS);
        EXPECT_EQ(CU(cuMemAlloc)(&other, 10), CUDA_ERROR_UNKNOWN);
        EXPECT_EQ(look(), lasting ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
        EXPECT_EQ(std::string(control().any_failed()).substr(0, 10), "cuMemAlloc");
        control().fail_nothing();
        EXPECT_EQ(look(), CUDA_SUCCESS);
        EXPECT_NE(control().any_failed(), nullptr) << "it is told until the next one";
    }
}

TEST_F(Driver, WritesOfANicAreSeenLateOrAtOnce) {
    int ordering = -1;
    CU(cuDeviceGetAttribute)(&ordering, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 0);
    EXPECT_EQ(ordering, late() ? 0 : 100);
    const DeviceMemory memory(5000);
    char byte = 0;
    ASSERT_EQ(CU(cuMemsetD8)(memory.address, 1, 5000), CUDA_SUCCESS);
    static_cast<char*>(control().alias(memory.address, 5000))[4999] = 2;  // as a NIC does
    ASSERT_EQ(CU(cuMemcpyDtoH)(&byte, memory.address + 4999, 1), CUDA_SUCCESS);
    EXPECT_EQ(byte, late() ? 1 : 2);
    ASSERT_EQ(CU(cuFlushGPUDirectRDMAWrites)(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                             CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER),
              CUDA_SUCCESS);
    ASSERT_EQ(control().gpu_read(memory.address + 4999, &byte, 1), 0U);
    EXPECT_EQ(byte, 2);
    byte = 3;
    ASSERT_EQ(control().gpu_write(memory.address, &byte, 1), 0U);
    EXPECT_EQ(*static_cast<char*>(control().alias(memory.address, 1)), 3);
}

TEST_F(Driver, AWaitCanFlush) {
    const TestStream stream;
    const DeviceMemory memory(100);
    const HostMemory done(8);
    done.set_word(1);
    *static_cast<char*>(control().alias(memory.address, 1)) = 8;
    const CUresult answer =
        CU(cuStreamWaitValue64)(stream.handle, done.address, 1, CU_STREAM_WAIT_VALUE_FLUSH);
    const char* options = std::getenv("FAKECUDA_FLUSH_OPTIONS");
    if (!options || *options != '3') {
        EXPECT_EQ(answer, CUDA_ERROR_NOT_SUPPORTED);
        return;
    }
    EXPECT_EQ(answer, CUDA_SUCCESS);
    char seen = 0;
    CU(cuMemcpyDtoHAsync)(&seen, memory.address, 1, stream.handle);
    EXPECT_EQ(CU(cuStreamSynchronize)(stream.handle), CUDA_SUCCESS);
    EXPECT_EQ(seen, 8);
}

}  // namespace
