#include "stream/stream_handle.h"

#include <cstdio>
#include <cstring>
#include <string>

#include "common/status.h"
#include "cuda/driver.h"
#include "manager/gpus.h"
#include "manager/memory_probe.h"

namespace railyard {
namespace {

constexpr std::uint64_t last_default_stream = 2;

[[noreturn]] void refuse(const std::string& why) {
    throw Error(Status::invalid_param, "transfer on a CUDA stream: " + why);
}

std::string name_of(std::uint64_t handle) {
    char text[32];
    std::snprintf(text, sizeof(text), "stream 0x%llx", static_cast<unsigned long long>(handle));
    return text;
}

int device_of(const cuda::Driver& driver, CUcontext context) {
    const cuda::ContextGuard guard(driver, context);
    guard.require();
    CUdevice device = -1;
    cuda::check(driver, driver.ctx_get_device(&device), "cuCtxGetDevice");
    return device;
}

/// The GPU that all of the transfer's device memory is on; nullptr: it touches none.
Gpu* common_gpu(Gpus& gpus, const std::vector<std::uint64_t>& ordinals) {
    for (const std::uint64_t ordinal : ordinals) {
        if (ordinal != ordinals.front())
            refuse("its descriptors lie on GPU " + std::to_string(ordinals.front()) + " and on GPU " +
                   std::to_string(ordinal) + "; a transfer on a stream touches the memory of one GPU");
    }
    return ordinals.empty() ? nullptr : gpus.find(ordinals.front());
}

CUcontext context_for_default_stream(Gpus& gpus, Gpu* wanted) {
    const cuda::Driver& driver = gpus.driver();
    CUcontext current = nullptr;
    if (driver.ctx_get_current(&current) == CUDA_SUCCESS && current) {
        const int device = device_of(driver, current);
        if (!wanted || wanted->ordinal() == device) return current;
    }
    return (wanted ? *wanted : *gpus.all().front()).context()->get();
}

/// To ask the driver in. The caller's own where it will do, so that none is made on a GPU that nobody uses.
CUcontext context_to_ask_in(Gpus& gpus, Gpu* wanted) {
    CUcontext current = nullptr;
    if (!wanted && gpus.driver().ctx_get_current(&current) == CUDA_SUCCESS && current) return current;
    return (wanted ? *wanted : *gpus.all().front()).context()->get();
}

CUcontext context_of(Gpus& gpus, Gpu* wanted, std::uint64_t handle) {
    // The driver follows the pointer without looking.
    if (!is_mapped(handle, 1)) refuse(name_of(handle) + " is no stream of this process");
    const cuda::Driver& driver = gpus.driver();
    const cuda::ContextGuard guard(driver, context_to_ask_in(gpus, wanted));
    guard.require();
    CUcontext context = nullptr;
    const CUresult result = driver.stream_get_ctx(reinterpret_cast<CUstream>(handle), &context);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        throw Error(Status::not_supported, name_of(handle) +
                                               " belongs to no context that can be made current; "
                                               "use one of cuStreamCreate or cudaStreamCreate");
    if (result != CUDA_SUCCESS) refuse(name_of(handle) + ": " + cuda::describe(driver, result));
    return context;
}

}  // namespace

StreamPlace find_stream(Gpus& gpus, std::string_view custom_param,
                        const std::vector<std::uint64_t>& memory_gpus) {
    std::uint64_t handle = 0;
    if (custom_param.size() != sizeof(handle))
        refuse("customParam has " + std::to_string(custom_param.size()) +
               " bytes; it is a CUstream of 8, or empty for none");
    if (!gpus.any()) throw Error(Status::not_supported, "transfer on a CUDA stream: " + gpus.summary());
    std::memcpy(&handle, custom_param.data(), sizeof(handle));
    Gpu* const wanted = common_gpu(gpus, memory_gpus);
    if (!gpus.driver().stream_get_ctx)
        throw Error(Status::not_supported, "the driver does not tell a stream's context; CUDA 9.2 does");

    StreamPlace place;
    place.handle = reinterpret_cast<CUstream>(handle);
    place.context = handle <= last_default_stream ? context_for_default_stream(gpus, wanted)
                                                  : context_of(gpus, wanted, handle);
    const int device = device_of(gpus.driver(), place.context);
    place.gpu = gpus.find(static_cast<std::uint64_t>(device));
    if (!place.gpu)
        refuse(name_of(handle) + " is on GPU " + std::to_string(device) +
               ", which gpu_devices does not allow");
    if (wanted && wanted != place.gpu)
        refuse(name_of(handle) + " is on GPU " + std::to_string(device) + ", its memory on GPU " +
               std::to_string(wanted->ordinal()) + "; use a stream of that GPU");
    if (!place.gpu->device().stream_values)
        throw Error(Status::not_supported,
                    "GPU " + std::to_string(device) +
                        ": streams cannot write and wait for values there; a driver of "
                        "CUDA 11.7 or later is needed");
    return place;
}

}  // namespace railyard
