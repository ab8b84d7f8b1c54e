#include "cuda/driver.h"

#include "on_fake_driver.h"

namespace railyard::cuda {
namespace {

using CudaDriver = OnFakeDriver;

TEST_F(CudaDriver, HasEveryFunctionOfTheList) {
    EXPECT_EQ(driver().version, 13000);
#define RAILYARD_CUDA_FUNCTION(member, name, text, version, need) \
    EXPECT_NE(driver().member, nullptr) << (text);
#include "cuda/functions.def"
#undef RAILYARD_CUDA_FUNCTION
    EXPECT_NE(built_with(), "without CUDA");
}

TEST_F(CudaDriver, OptionalFunctionsMayBeMissing) {
    fake().fail("missing cuStreamGetDevice", 0, CUDA_ERROR_NOT_FOUND);
    const DriverLookup found = find_driver();
    ASSERT_TRUE(found.driver);
    EXPECT_EQ(found.driver->stream_get_device, nullptr);
    EXPECT_NE(found.driver->stream_create, nullptr);
}

TEST_F(CudaDriver, WithoutARequiredFunctionThereIsNoDriver) {
    fake().fail("missing cuMemcpyAsync", 0, CUDA_ERROR_NOT_FOUND);
    const DriverLookup found = find_driver();
    EXPECT_FALSE(found.driver);
    EXPECT_CONTAINS(found.absent_because, "cuMemcpyAsync");
}

TEST_F(CudaDriver, SaysWhyItDoesNotStart) {
    fake().fail("cuInit", 1, CUDA_ERROR_NO_DEVICE);
    DriverLookup found = find_driver();
    EXPECT_FALSE(found.driver);
    EXPECT_EQ(found.absent_because, "cuInit: CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)");
    fake().fail("cuDeviceGetCount", 1, CUDA_ERROR_UNKNOWN);
    found = find_driver();
    EXPECT_FALSE(found.driver);
    EXPECT_CONTAINS(found.absent_because, "cuDeviceGetCount: CUDA_ERROR_UNKNOWN");
}

TEST_F(CudaDriver, ErrorsHaveTheDriversNames) {
    EXPECT_EQ(describe(driver(), CUDA_ERROR_OUT_OF_MEMORY), "CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
    EXPECT_EQ(describe(driver(), static_cast<CUresult>(12345)), "CUDA error 12345");
    EXPECT_NO_THROW(check(driver(), CUDA_SUCCESS, "cuCall"));
    const auto [status, message] = error_of([&] { check(driver(), CUDA_ERROR_INVALID_VALUE, "cuCall"); });
    EXPECT_EQ(status, Status::backend);
    EXPECT_EQ(message, "cuCall: CUDA_ERROR_INVALID_VALUE (invalid argument)");
}

}  // namespace
}  // namespace railyard::cuda
