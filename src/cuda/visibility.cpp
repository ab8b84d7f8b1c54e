#include "cuda/visibility.h"

#include "common/log.h"
#include "cuda/context_guard.h"
#include "cuda/driver.h"

namespace railyard::cuda {

Visibility visibility_of(const Device& device) noexcept {
    if (device.writes_ordering != WritesOrdering::none) return Visibility::at_once;
    if (device.host_flush) return Visibility::host_flush;
    return device.stream_flush ? Visibility::stream_flush : Visibility::read_back;
}

const char* to_string(Visibility visibility) noexcept {
    switch (visibility) {
        case Visibility::at_once:
            return "at once";
        case Visibility::host_flush:
            return "host flush";
        case Visibility::stream_flush:
            return "stream flush";
        case Visibility::read_back:
            return "read back";
    }
    return "unknown";
}

Status flush_writes(const PrimaryContext& context) noexcept {
    const Driver& driver = context.driver();
    const ContextGuard guard(context);
    if (!guard.pushed() || !driver.flush_gpu_direct_rdma_writes) return Status::backend;
    const CUresult result = driver.flush_gpu_direct_rdma_writes(
        CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
    if (result == CUDA_SUCCESS) return Status::ok;
    const char* name = nullptr;
    driver.get_error_name(result, &name);
    RAILYARD_LOG(error, "cuda", "cuFlushGPUDirectRDMAWrites on device %d: %s", context.ordinal(),
                 name ? name : "unknown error");
    return Status::backend;
}

}  // namespace railyard::cuda
