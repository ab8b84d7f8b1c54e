#include "cuda/context_guard.h"

#include <map>

#include "common/log.h"
#include "common/mutex.h"
#include "common/status.h"
#include "cuda/driver.h"

namespace railyard::cuda {
namespace {

/// One for all that have the device's context at a time.
std::shared_ptr<std::atomic<bool>> shared_reach(int ordinal) {
    static auto& mutex = *new Mutex;
    static auto& known = *new std::map<int, std::weak_ptr<std::atomic<bool>>>;
    const MutexLock lock(mutex);
    std::weak_ptr<std::atomic<bool>>& entry = known[ordinal];
    std::shared_ptr<std::atomic<bool>> reach = entry.lock();
    if (!reach) entry = reach = std::make_shared<std::atomic<bool>>(true);
    return reach;
}

}  // namespace

PrimaryContext::PrimaryContext(const Driver& driver, int ordinal)
    : driver_(std::make_unique<const Driver>(driver)),
      ordinal_(ordinal),
      kernels_reach_all_(shared_reach(ordinal)) {
    CUdevice device = 0;
    if (const CUresult result = driver.device_get(&device, ordinal); result != CUDA_SUCCESS) {
        throw Error(Status::invalid_param,
                    "no CUDA device " + std::to_string(ordinal) + ": " + describe(driver, result));
    }
    check(driver, driver.primary_ctx_retain(&context_, device), "cuDevicePrimaryCtxRetain");
}

PrimaryContext::~PrimaryContext() {
    if (const CUresult result = driver_->primary_ctx_release(ordinal_); result != CUDA_SUCCESS)
        RAILYARD_LOG(warn, "cuda", "cuDevicePrimaryCtxRelease(%d): %s", ordinal_,
                     describe(*driver_, result).c_str());
}

ContextGuard::ContextGuard(const Driver& driver, CUctx_st* context) noexcept
    : driver_(driver),
      result_(driver.ctx_push_current(context)),
      capture_mode_(CU_STREAM_CAPTURE_MODE_RELAXED) {
    if (pushed()) exchange_capture_mode();
}

ContextGuard::ContextGuard(const PrimaryContext& context) noexcept
    : ContextGuard(context.driver(), context.get()) {}

ContextGuard::~ContextGuard() {
    CUctx_st* popped = nullptr;
    if (!pushed()) return;
    exchange_capture_mode();
    driver_.ctx_pop_current(&popped);
}

/// While a program captures, asking for an event or allocating in any thread would spoil the capture, unless
/// the thread has said that what it does has nothing to do with it.
void ContextGuard::exchange_capture_mode() noexcept {
    if (!driver_.thread_exchange_stream_capture_mode) return;
    auto mode = static_cast<CUstreamCaptureMode>(capture_mode_);
    if (driver_.thread_exchange_stream_capture_mode(&mode) == CUDA_SUCCESS) capture_mode_ = mode;
}

void ContextGuard::require() const {
    check(driver_, static_cast<CUresult>(result_), "cuCtxPushCurrent");
}

}  // namespace railyard::cuda
