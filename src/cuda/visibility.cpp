#include "cuda/visibility.h"

#include "common/log.h"
#include "cuda/context_guard.h"
#include "cuda/driver.h"
#include "cuda/own_stream.h"

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

WriteFlusher::WriteFlusher(std::shared_ptr<PrimaryContext> context, Visibility visibility)
    : context_(std::move(context)), visibility_(visibility) {
    if (visibility_ != Visibility::stream_flush) return;
    word_ = std::make_unique<PinnedMemory>(context_, sizeof(std::uint64_t));
    const ContextGuard guard(*context_);
    guard.require();
    stream_ = make_own_stream(context_->driver());
}

WriteFlusher::~WriteFlusher() {
    if (!stream_) return;
    const ContextGuard guard(*context_);
    context_->driver().stream_destroy(stream_);
}

Status WriteFlusher::flush() noexcept {
    switch (visibility_) {
        case Visibility::at_once:
            return Status::ok;
        case Visibility::host_flush:
            return flush_writes(*context_);
        case Visibility::stream_flush:
            return flush_by_stream();
        case Visibility::read_back:
            break;
    }
    return Status::backend;
}

Status WriteFlusher::flush_by_stream() noexcept {
    const Driver& driver = context_->driver();
    const ContextGuard guard(*context_);
    if (!guard.pushed() || !driver.stream_wait_value64) return Status::backend;
    CUresult result = driver.stream_wait_value64(stream_, word_->device_address(), 0,
                                                 CU_STREAM_WAIT_VALUE_GEQ | CU_STREAM_WAIT_VALUE_FLUSH);
    if (result == CUDA_SUCCESS) result = driver.stream_synchronize(stream_);
    if (result == CUDA_SUCCESS) return Status::ok;
    RAILYARD_LOG(error, "cuda", "flush by a stream of device %d: %s", context_->ordinal(),
                 error_name(driver, result));
    return Status::backend;
}

Status flush_writes(const PrimaryContext& context) noexcept {
    const Driver& driver = context.driver();
    const ContextGuard guard(context);
    if (!guard.pushed() || !driver.flush_gpu_direct_rdma_writes) return Status::backend;
    const CUresult result = driver.flush_gpu_direct_rdma_writes(
        CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
    if (result == CUDA_SUCCESS) return Status::ok;
    RAILYARD_LOG(error, "cuda", "cuFlushGPUDirectRDMAWrites on device %d: %s", context.ordinal(),
                 error_name(driver, result));
    return Status::backend;
}

}  // namespace railyard::cuda
