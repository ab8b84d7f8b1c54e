// Memory on the fake driver's GPUs for the conformance suite.
#pragma once

#include <map>
#include <optional>

#include "cuda/context_guard.h"
#include "cuda/driver.h"
#include "engine_pair.h"
#include "fakecuda/control.h"
#include "fakecuda/symbol.h"
#include "manager/registration.h"

namespace railyard::test {

inline constexpr int host = -1;

using fakecuda::fake;

inline const cuda::Driver& cuda_driver() {
    static const cuda::DriverLookup found = cuda::find_driver();
    return *found.driver;
}

inline CUcontext current_context() {
    CUcontext context = nullptr;
    EXPECT_EQ(cuda_driver().ctx_get_current(&context), CUDA_SUCCESS);
    return context;
}

/// `count` bytes of host memory, or of a GPU (by ordinal). Zeroed.
class HostOrGpuMemory {
  public:
    HostOrGpuMemory(int where, std::size_t count) : length(count), where_(where) {
        if (where == host) {
            bytes_.resize(count);
            address = reinterpret_cast<std::uint64_t>(bytes_.data());
            return;
        }
        context_ = std::make_shared<cuda::PrimaryContext>(cuda_driver(), where);
        const cuda::ContextGuard guard(*context_);
        CUdeviceptr memory = 0;
        EXPECT_EQ(cuda_driver().mem_alloc(&memory, count), CUDA_SUCCESS);
        EXPECT_EQ(cuda_driver().memset_d8(memory, 0, count), CUDA_SUCCESS);
        address = memory;
    }
    ~HostOrGpuMemory() {
        if (where_ == host) return;
        const cuda::ContextGuard guard(*context_);
        EXPECT_EQ(cuda_driver().mem_free(address), CUDA_SUCCESS);
    }
    HostOrGpuMemory(const HostOrGpuMemory&) = delete;
    HostOrGpuMemory& operator=(const HostOrGpuMemory&) = delete;

    [[nodiscard]] std::shared_ptr<Registration> register_in(Engine& engine) const {
        return where_ == host ? engine.register_memory(address, length, 0, MemoryType::host)
                              : engine.register_memory(address, length, static_cast<std::uint64_t>(where_),
                                                       MemoryType::device);
    }
    void fill(std::uint32_t seed) {
        std::vector<std::uint8_t> pattern(length);
        fill_pattern(pattern, seed);
        if (where_ == host) {
            bytes_ = pattern;  // same size: stays where it is
            return;
        }
        const cuda::ContextGuard guard(*context_);
        EXPECT_EQ(cuda_driver().memcpy(address, reinterpret_cast<std::uint64_t>(pattern.data()), length),
                  CUDA_SUCCESS);
    }
    [[nodiscard]] std::vector<std::uint8_t> content() const {
        if (where_ == host) return bytes_;
        std::vector<std::uint8_t> copy(length);
        const cuda::ContextGuard guard(*context_);
        EXPECT_EQ(cuda_driver().memcpy(reinterpret_cast<std::uint64_t>(copy.data()), address, length),
                  CUDA_SUCCESS);
        return copy;
    }

    std::uint64_t address = 0;
    const std::size_t length;

  private:
    const int where_;
    std::vector<std::uint8_t> bytes_;
    cuda::ContextPtr context_;
};

/// Registered as a whole.
class Place : public HostOrGpuMemory {
  public:
    Place(Engine& engine, int where, std::size_t count)
        : HostOrGpuMemory(where, count), region(register_in(engine)) {}
    void drop(Engine& engine) {
        engine.deregister_memory(region);
        region.reset();
    }

    std::shared_ptr<Registration> region;
};

/// Of GPU 0, in a context of the program's own, which kernels of the device's primary one may not touch.
class ForeignMemory {
  public:
    ForeignMemory(std::size_t count, std::uint32_t seed) : bytes(count) {
        const cuda::Driver& driver = cuda_driver();
        auto* const create =
            reinterpret_cast<CUresult (*)(CUcontext*, unsigned, CUdevice)>(symbol("cuCtxCreate_v2"));
        CUcontext popped = nullptr;
        CUdeviceptr memory = 0;
        fill_pattern(bytes, seed);
        EXPECT_EQ(create(&own_, 0, 0), CUDA_SUCCESS);
        EXPECT_EQ(driver.mem_alloc(&memory, count), CUDA_SUCCESS);
        address = memory;
        EXPECT_EQ(driver.memcpy(address, reinterpret_cast<std::uint64_t>(bytes.data()), count), CUDA_SUCCESS);
        EXPECT_EQ(driver.ctx_pop_current(&popped), CUDA_SUCCESS);
    }
    ~ForeignMemory() {
        auto* const destroy = reinterpret_cast<CUresult (*)(CUcontext)>(symbol("cuCtxDestroy_v2"));
        {
            const cuda::ContextGuard guard(cuda_driver(), own_);
            EXPECT_EQ(cuda_driver().mem_free(address), CUDA_SUCCESS);
        }
        EXPECT_EQ(destroy(own_), CUDA_SUCCESS);
    }
    ForeignMemory(const ForeignMemory&) = delete;
    ForeignMemory& operator=(const ForeignMemory&) = delete;

    std::vector<std::uint8_t> bytes;  ///< that it was filled with
    std::uint64_t address = 0;

  private:
    CUcontext own_ = nullptr;
};

/// What work on the GPU would read.
inline std::vector<std::uint8_t> gpu_view(const Place& place) {
    std::vector<std::uint8_t> bytes(place.length);
    EXPECT_EQ(fake().gpu_read(place.address, bytes.data(), bytes.size()), 0u);
    return bytes;
}

/// What moves between host and device as it likes.
struct Managed {
    explicit Managed(std::size_t bytes) : context(cuda_driver(), 0) {
        const cuda::ContextGuard guard(context);
        CUdeviceptr memory = 0;
        const auto allocate = reinterpret_cast<decltype(&cuMemAllocManaged)>(
            dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), "cuMemAllocManaged"));
        EXPECT_EQ(allocate(&memory, bytes, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
        address = memory;
    }
    ~Managed() {
        const cuda::ContextGuard guard(context);
        EXPECT_EQ(cuda_driver().mem_free(address), CUDA_SUCCESS);
    }
    cuda::PrimaryContext context;
    std::uint64_t address = 0;
};

/// Whether GPU memory is to be on the rails, and not behind staging buffers.
inline bool zero_copy() {
    return std::getenv("RAILYARD_TEST_ZERO_COPY") != nullptr;
}

/// One way to run the suite.
struct GpuFabric {
    Fabric fabric;
    ParamMap extra;
};

inline void PrintTo(const GpuFabric& way, std::ostream* out) {
    *out << way.fabric.provider << ":" << way.fabric.rails;
}

/// As fabrics(), with the vram_staging that RAILYARD_TEST_STAGING says.
inline std::vector<GpuFabric> gpu_fabrics() {
    std::vector<GpuFabric> listed;
    for (const Fabric& fabric :
         fabrics({{"tcp", 1, false}, {"tcp", 2, true}, {"shm", 1, false}, {"shm", 1, true}})) {
        GpuFabric one{fabric, {}};
        if (const char* staging = std::getenv("RAILYARD_TEST_STAGING")) one.extra["vram_staging"] = staging;
        listed.push_back(one);
    }
    return listed;
}

inline std::string gpu_fabric_name(const testing::TestParamInfo<GpuFabric>& info) {
    return fabric_name({info.param.fabric, info.index});
}

}  // namespace railyard::test
