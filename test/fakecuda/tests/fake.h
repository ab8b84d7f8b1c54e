// The fake driver as a program finds it: dlopen, then names.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../control.h"
#include "../nothing_left.h"

inline void* fake_function(const char* name) {
    static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void* found = library ? dlsym(library, name) : nullptr;
    if (!found) {
        ADD_FAILURE() << name << ": " << dlerror();
        std::abort();
    }
    return found;
}

#define FAKE_TEXT_OF(x) #x
#define FAKE_TEXT(x) FAKE_TEXT_OF(x)
/// A function of the driver, under the name that the header gives it.
#define CU(name) (reinterpret_cast<decltype(&name)>(fake_function(FAKE_TEXT(name))))

inline const fakecuda::Control& control() {
    static const fakecuda::Control loaded = fakecuda::load_control();
    return loaded;
}

/// A current context on device 0; everything is given back and counted at the end.
class WithContext : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(CU(cuInit)(0), CUDA_SUCCESS);
        before_ = control().statistics();
        ASSERT_EQ(CU(cuDevicePrimaryCtxRetain)(&context, 0), CUDA_SUCCESS);
        ASSERT_EQ(CU(cuCtxPushCurrent)(context), CUDA_SUCCESS);
    }
    void TearDown() override {
        control().fail_nothing();
        const char* delay = std::getenv("FAKECUDA_DELAY_US");
        control().set_delay_us(delay ? static_cast<unsigned>(std::atoi(delay)) : 0);
        CUcontext popped = nullptr;
        EXPECT_EQ(CU(cuCtxPopCurrent)(&popped), CUDA_SUCCESS);
        EXPECT_EQ(popped, context);
        EXPECT_EQ(CU(cuDevicePrimaryCtxRelease)(0), CUDA_SUCCESS);
        fakecuda::expect_nothing_left(before_, control().statistics());
    }

    /// Polls until `done`, ten seconds at most.
    static bool eventually(const std::function<bool()>& done) {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (!done()) {
            if (std::chrono::steady_clock::now() > limit) return false;
            std::this_thread::yield();
        }
        return true;
    }

    CUcontext context = nullptr;

  private:
    fakecuda_statistics before_{};
};

struct DeviceMemory {
    explicit DeviceMemory(std::size_t bytes) { EXPECT_EQ(CU(cuMemAlloc)(&address, bytes), CUDA_SUCCESS); }
    ~DeviceMemory() { EXPECT_EQ(CU(cuMemFree)(address), CUDA_SUCCESS); }
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;
    CUdeviceptr address = 0;
};

struct TestStream {
    TestStream() { EXPECT_EQ(CU(cuStreamCreate)(&handle, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS); }
    ~TestStream() { EXPECT_EQ(CU(cuStreamDestroy)(handle), CUDA_SUCCESS); }
    TestStream(const TestStream&) = delete;
    TestStream& operator=(const TestStream&) = delete;
    CUstream handle = nullptr;
};

struct HostMemory {
    explicit HostMemory(std::size_t bytes) {
        EXPECT_EQ(CU(cuMemHostAlloc)(&pointer, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                  CUDA_SUCCESS);
        EXPECT_EQ(CU(cuMemHostGetDevicePointer)(&address, pointer, 0), CUDA_SUCCESS);
    }
    ~HostMemory() { EXPECT_EQ(CU(cuMemFreeHost)(pointer), CUDA_SUCCESS); }
    HostMemory(const HostMemory&) = delete;
    HostMemory& operator=(const HostMemory&) = delete;
    [[nodiscard]] std::uint64_t word() const {
        return __atomic_load_n(static_cast<std::uint64_t*>(pointer), __ATOMIC_ACQUIRE);
    }
    void set_word(std::uint64_t value) const {
        __atomic_store_n(static_cast<std::uint64_t*>(pointer), value, __ATOMIC_RELEASE);
    }
    void* pointer = nullptr;
    CUdeviceptr address = 0;
};
