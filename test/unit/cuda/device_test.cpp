#include "cuda/device.h"

#include <cstdlib>

#include "cuda/visibility.h"
#include "on_fake_driver.h"

namespace railyard::cuda {
namespace {

using CudaDevices = OnFakeDriver;

bool late() {
    return std::getenv("FAKECUDA_LATE") != nullptr;
}

TEST_F(CudaDevices, AreThoseThatTheProgramSees) {
    const std::vector<Device> devices = list_devices(driver());
    ASSERT_EQ(devices.size(), 3U);  // CUDA_VISIBLE_DEVICES=3,1,0 of a p5.48xl
    EXPECT_EQ(devices[0].pci, "0000:86:00.0");
    EXPECT_EQ(devices[1].pci, "0000:64:00.0");
    EXPECT_EQ(devices[2].pci, "0000:53:00.0");
    EXPECT_EQ(devices[2].ordinal, 2);
    EXPECT_EQ(devices[2].name, "Fake GPU 2");
    EXPECT_EQ(devices[0].memory, std::uint64_t{16} << 30);
    EXPECT_TRUE(devices[0].gpu_direct_rdma);
    EXPECT_TRUE(devices[0].vmm_gpu_direct_rdma);
    EXPECT_TRUE(devices[0].dma_buf);
    EXPECT_TRUE(devices[0].unified_addressing);
    EXPECT_TRUE(devices[0].stream_values);
    EXPECT_TRUE(devices[0].host_flush);
    EXPECT_EQ(devices[0].stream_flush, late());  // see meson.build
    EXPECT_EQ(devices[0].writes_ordering, late() ? WritesOrdering::none : WritesOrdering::owner);
}

TEST_F(CudaDevices, UnknownAttributesAreAbsentAndFailingCallsErrors) {
    fake().fail("cuDeviceGetAttribute", 0, CUDA_ERROR_INVALID_VALUE);
    const std::vector<Device> devices = list_devices(driver());
    ASSERT_EQ(devices.size(), 3U);
    EXPECT_FALSE(devices[0].gpu_direct_rdma);
    EXPECT_FALSE(devices[0].host_flush);
    EXPECT_EQ(devices[0].writes_ordering, WritesOrdering::none);
    for (const char* call :
         {"cuDeviceGetCount", "cuDeviceGetPCIBusId", "cuDeviceTotalMem", "cuDeviceGetName"}) {
        fake().fail(call, 1, CUDA_ERROR_UNKNOWN);
        const auto [status, message] = error_of([&] { static_cast<void>(list_devices(driver())); });
        EXPECT_EQ(status, Status::backend);
        EXPECT_CONTAINS(message, call);
    }
}

TEST(CudaVisibility, FollowsTheAttributes) {
    Device device;
    EXPECT_EQ(visibility_of(device), Visibility::read_back);
    device.stream_flush = true;
    EXPECT_EQ(visibility_of(device), Visibility::stream_flush);
    device.host_flush = true;
    EXPECT_EQ(visibility_of(device), Visibility::host_flush);
    for (const WritesOrdering ordering : {WritesOrdering::owner, WritesOrdering::all_devices}) {
        device.writes_ordering = ordering;
        EXPECT_EQ(visibility_of(device), Visibility::at_once);
    }
    EXPECT_STREQ(to_string(Visibility::host_flush), "host flush");
}

TEST_F(CudaDevices, AFlushMakesWritesOfANicVisible) {
    const ContextPtr held = context(1);
    const DeviceBuffer memory(held, 100);
    const Visibility needed = visibility_of(list_devices(driver())[1]);
    EXPECT_EQ(needed, late() ? Visibility::host_flush : Visibility::at_once);
    *static_cast<char*>(fake().alias(memory.address(), 100)) = 9;
    char seen = 0;
    fake().gpu_read(memory.address(), &seen, 1);
    EXPECT_EQ(seen, late() ? 0 : 9);
    EXPECT_EQ(flush_writes(*held), Status::ok);
    fake().gpu_read(memory.address(), &seen, 1);
    EXPECT_EQ(seen, 9);
    fake().fail("cuFlushGPUDirectRDMAWrites", 1, CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(flush_writes(*held), Status::backend);
    fake().fail("cuCtxPushCurrent", 1, CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(flush_writes(*held), Status::backend);
}

}  // namespace
}  // namespace railyard::cuda
