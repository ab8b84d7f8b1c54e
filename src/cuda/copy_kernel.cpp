#include "cuda/copy_kernel.h"

#include <algorithm>

#include "common/log.h"
#include "cuda/copy_kernel_ptx.h"
#include "cuda/driver.h"

namespace railyard::cuda {
namespace {

constexpr unsigned threads = 256;
/// What a block of threads copies of a piece before another one has a share in it, and how many have at most.
constexpr std::uint32_t bytes_per_block = 16 << 10;
constexpr unsigned most_blocks = 16;

}  // namespace

std::shared_ptr<const CopyKernel> CopyKernel::load(ContextPtr context) {
    const Driver& driver = context->driver();
    if (!driver.module_load_data || !driver.module_unload || !driver.module_get_function ||
        !driver.launch_kernel)
        return nullptr;
    const ContextGuard guard(*context);
    if (!guard.pushed()) return nullptr;
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    const char* call = "cuModuleLoadData";
    CUresult result = driver.module_load_data(&module, copy_kernel_ptx);
    if (result == CUDA_SUCCESS) {
        call = "cuModuleGetFunction";
        result = driver.module_get_function(&function, module, "railyard_copy_pieces");
        if (result == CUDA_SUCCESS)
            return std::shared_ptr<const CopyKernel>(new CopyKernel(context, module, function));
        driver.module_unload(module);
    }
    RAILYARD_LOG(info, "cuda", "small pieces on device %d are copied one by one, not by a kernel: %s: %s",
                 context->ordinal(), call, error_name(driver, result));
    return nullptr;
}

CopyKernel::~CopyKernel() {
    const ContextGuard guard(*context_);
    if (guard.pushed()) context_->driver().module_unload(module_);
}

bool CopyKernel::launch(const CopyBatch& batch, unsigned pieces, std::uint32_t longest,
                        CUstream_st* stream) const noexcept {
    const Driver& driver = context_->driver();
    void* arguments[] = {const_cast<CopyBatch*>(&batch)};  // read within the call
    const unsigned blocks = std::clamp(longest / bytes_per_block, 1U, most_blocks);
    const CUresult result = driver.launch_kernel(function_, blocks, pieces, 1, threads, 1, 1, 0, stream,
                                                 static_cast<void**>(arguments), nullptr);
    if (result == CUDA_SUCCESS) return true;
    RAILYARD_LOG(warn, "cuda", "copies on device %d: cuLaunchKernel: %s", context_->ordinal(),
                 error_name(driver, result));
    return false;
}

}  // namespace railyard::cuda
