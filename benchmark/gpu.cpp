// The driver calls, each within the device's primary context.
#include "gpu.h"

#include <utility>

#include "common/status.h"
#include "cuda/driver.h"
#include "failure.h"

namespace railyard::bench {

namespace {

std::unique_ptr<const cuda::Driver> load_driver(unsigned ordinal) {
    cuda::DriverLookup found = cuda::find_driver();
    if (found.driver) return std::make_unique<const cuda::Driver>(*found.driver);
    throw Failure("GPU " + std::to_string(ordinal) + " cannot be used: " + found.absent_because +
                  "; without a CUDA driver only --mem dram, --target-mem dram and --stream off work");
}

cuda::ContextPtr open_context(const cuda::Driver& driver, unsigned ordinal) {
    int count = 0;
    driver.device_get_count(&count);
    if (ordinal >= static_cast<unsigned>(count)) {
        throw Failure("there is no GPU " + std::to_string(ordinal) + ": the driver shows " +
                      std::to_string(count) +
                      ", counted from 0; see --gpu, --target-gpu and CUDA_VISIBLE_DEVICES");
    }
    return std::make_shared<cuda::PrimaryContext>(driver, static_cast<int>(ordinal));
}

}  // namespace

Gpu::Gpu(unsigned ordinal) : driver_(load_driver(ordinal)), context_(open_context(*driver_, ordinal)) {
    const cuda::ContextGuard guard(*context_);
    guard.require();
    require(driver_->stream_create(&copies_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

Gpu::~Gpu() {
    const cuda::ContextGuard guard(*context_);
    driver_->stream_destroy(copies_);
}

void Gpu::require(unsigned result, const char* call) const {
    const auto code = static_cast<CUresult>(result);
    if (code == CUDA_SUCCESS) return;
    throw Failure("GPU " + std::to_string(context_->ordinal()) + ": " + call + ": " +
                  cuda::describe(*driver_, code));
}

void Gpu::copy(std::uint64_t to, std::uint64_t from, std::size_t length) {
    const cuda::ContextGuard guard(*context_);
    guard.require();
    require(driver_->memcpy_async(to, from, length, copies_), "cuMemcpyAsync");
    // Also for host memory that is not pinned, where the call itself returns before the bytes are on the
    // device.
    require(driver_->stream_synchronize(copies_), "cuStreamSynchronize");
}

GpuMemory::GpuMemory(Gpu& gpu, std::size_t length) : gpu_(gpu) {
    const cuda::ContextGuard guard(*gpu.context());
    guard.require();
    CUdeviceptr base = 0;
    const CUresult result = gpu.driver().mem_alloc(&base, length);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        throw Failure("GPU " + std::to_string(gpu.context()->ordinal()) + " has no " +
                      std::to_string(length) + " bytes free; lower --memory");
    }
    gpu.require(result, "cuMemAlloc");
    base_ = base;
    const CUresult cleared = gpu.driver().memset_d8(base, 0, length);
    if (cleared == CUDA_SUCCESS) return;
    gpu.driver().mem_free(base);
    gpu.require(cleared, "cuMemsetD8");
}

GpuMemory::~GpuMemory() {
    const cuda::ContextGuard guard(*gpu_.context());
    gpu_.driver().mem_free(base_);
}

GpuStream::GpuStream(Gpu& gpu) : gpu_(&gpu) {
    const cuda::ContextGuard guard(*gpu.context());
    guard.require();
    gpu.require(gpu.driver().stream_create(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

GpuStream::GpuStream(GpuStream&& other) noexcept
    : gpu_(other.gpu_), stream_(std::exchange(other.stream_, nullptr)) {}

GpuStream::~GpuStream() {
    if (stream_ == nullptr) return;
    const cuda::ContextGuard guard(*gpu_->context());
    gpu_->driver().stream_destroy(stream_);
}

std::string GpuStream::custom_param() const {
    return {reinterpret_cast<const char*>(&stream_), sizeof(stream_)};
}

}  // namespace railyard::bench
