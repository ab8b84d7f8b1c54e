#include "cuda/pinned_memory.h"

#include <cstring>
#include <string>

#include "common/log.h"
#include "common/status.h"
#include "cuda/driver.h"

namespace railyard::cuda {

PinnedMemory::PinnedMemory(ContextPtr context, std::size_t bytes)
    : context_(std::move(context)), bytes_(bytes) {
    const Driver& driver = context_->driver();
    const ContextGuard guard(*context_);
    guard.require();
    const CUresult allocated =
        driver.mem_host_alloc(&pointer_, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (allocated != CUDA_SUCCESS) {
        throw Error(Status::backend, "cuMemHostAlloc of " + std::to_string(bytes) + " bytes: " +
                                         describe(driver, allocated) + "; is the memory lock limit too low?");
    }
    CUdeviceptr address = 0;
    const CUresult mapped = driver.mem_host_get_device_pointer(&address, pointer_, 0);
    if (mapped != CUDA_SUCCESS) driver.mem_free_host(pointer_);
    check(driver, mapped, "cuMemHostGetDevicePointer");
    device_address_ = address;
    std::memset(pointer_, 0, bytes);
}

PinnedMemory::~PinnedMemory() {
    const Driver& driver = context_->driver();
    const ContextGuard guard(*context_);
    if (const CUresult result = driver.mem_free_host(pointer_); result != CUDA_SUCCESS)
        RAILYARD_LOG(warn, "cuda", "cuMemFreeHost: %s", describe(driver, result).c_str());
}

}  // namespace railyard::cuda
