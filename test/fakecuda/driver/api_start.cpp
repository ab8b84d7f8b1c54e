// Start, errors, look-up of functions.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "api.h"
#include "state.h"

using namespace fakecuda;

CUresult cuInit(unsigned flags) {
    State& all = state();
    static std::mutex starting;
    const std::lock_guard lock(starting);
    if (!all.initialised) {
        all.settings = read_settings();
        all.delay_us = all.settings.delay_us;
        all.c2c = all.settings.c2c;
        all.failures.add_all(all.settings.fail);
        all.primary.resize(all.settings.devices.size());
        all.primary_counts.resize(all.settings.devices.size());
    }
    if (const CUresult failure = enter_any_time(__func__); failure != CUDA_SUCCESS) return failure;
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (all.settings.devices.empty()) return CUDA_ERROR_NO_DEVICE;
    if (!all.initialised.exchange(true)) std::atexit(end_streams);
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
    if (const CUresult failure = enter_any_time(__func__); failure != CUDA_SUCCESS) return failure;
    *version = 13000;
    return CUDA_SUCCESS;
}

namespace {

struct ErrorName {
    CUresult error;
    const char* name;
    const char* text;
};

constexpr ErrorName error_names[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_ALREADY_MAPPED, "CUDA_ERROR_ALREADY_MAPPED", "resource already mapped"},
    {CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {CUDA_ERROR_OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in this state"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const ErrorName* find_name(CUresult error) {
    for (const ErrorName& entry : error_names) {
        if (entry.error == error) return &entry;
    }
    return nullptr;
}

/// This library itself, whatever it was loaded as.
void* own_library() {
    static void* const library = [] {
        Dl_info info{};
        dladdr(reinterpret_cast<void*>(&cuInit), &info);
        return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    }();
    return library;
}

void* find_function(const char* name) {
    if (std::strncmp(name, "cu", 2) != 0) return nullptr;
    for (const char* suffix : {"_v2", ""}) {
        if (void* found = dlsym(own_library(), (std::string(name) + suffix).c_str())) return found;
    }
    return nullptr;
}

}  // namespace

CUresult cuGetErrorName(CUresult error, const char** name) {
    const ErrorName* entry = find_name(error);
    *name = entry ? entry->name : nullptr;
    return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
    const ErrorName* entry = find_name(error);
    *text = entry ? entry->text : nullptr;
    return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t,
                          CUdriverProcAddressQueryResult* status) {
    if (const CUresult failure = enter_any_time(__func__); failure != CUDA_SUCCESS) return failure;
    // "Missing" functions, for programs that meet an older driver.
    *function = state().failures.take(std::string("missing ") + symbol) == CUDA_SUCCESS && version > 0
                    ? find_function(symbol)
                    : nullptr;
    if (status) *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#undef cuGetProcAddress
extern "C" __attribute__((visibility("default"))) CUresult cuGetProcAddress(const char* symbol,
                                                                            void** function, int version,
                                                                            cuuint64_t flags) {
    return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}
