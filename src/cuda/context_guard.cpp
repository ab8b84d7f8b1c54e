#include "cuda/context_guard.h"

#include "common/log.h"
#include "common/status.h"
#include "cuda/driver.h"

namespace railyard::cuda {

PrimaryContext::PrimaryContext(const Driver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {
    CUdevice device = 0;
    if (const CUresult result = driver.device_get(&device, ordinal); result != CUDA_SUCCESS) {
        throw Error(Status::invalid_param,
                    "no CUDA device " + std::to_string(ordinal) + ": " + describe(driver, result));
    }
    check(driver, driver.primary_ctx_retain(&context_, device), "cuDevicePrimaryCtxRetain");
}

PrimaryContext::~PrimaryContext() {
    if (const CUresult result = driver_.primary_ctx_release(ordinal_); result != CUDA_SUCCESS)
        RAILYARD_LOG(warn, "cuda", "cuDevicePrimaryCtxRelease(%d): %s", ordinal_,
                     describe(driver_, result).c_str());
}

ContextGuard::ContextGuard(const Driver& driver, CUctx_st* context) noexcept
    : driver_(driver), result_(driver.ctx_push_current(context)) {}

ContextGuard::ContextGuard(const PrimaryContext& context) noexcept
    : ContextGuard(context.driver(), context.get()) {}

ContextGuard::~ContextGuard() {
    CUctx_st* popped = nullptr;
    if (pushed()) driver_.ctx_pop_current(&popped);
}

void ContextGuard::require() const {
    check(driver_, static_cast<CUresult>(result_), "cuCtxPushCurrent");
}

}  // namespace railyard::cuda
