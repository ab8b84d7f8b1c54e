// Devices and contexts.
#include <cstdio>
#include <cstring>

#include "api.h"
#include "state.h"

using namespace fakecuda;

CUresult cuDeviceGetCount(int* count) {
    FAKECUDA_ENTER();
    *count = state().device_count();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    FAKECUDA_ENTER();
    if (!state().is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
    FAKECUDA_ENTER();
    if (!state().is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    std::snprintf(name, static_cast<std::size_t>(length), "Fake GPU %d", device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice device) {
    FAKECUDA_ENTER();
    if (!state().is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = state().settings.memory;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
    FAKECUDA_ENTER();
    if (!state().is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    const Settings& settings = state().settings;
    const DeviceDescription& at = settings.devices[static_cast<std::size_t>(device)];
    switch (attribute) {
        case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
            *value = static_cast<int>(at.bus);
            break;
        case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
            *value = static_cast<int>(at.device);
            break;
        case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
            *value = static_cast<int>(at.pci_domain);
            break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
            *value = 9;
            break;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
        case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
        case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
        case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
            *value = 1;
            break;
        case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
            *value = settings.gpu_direct;
            break;
        case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
            *value = settings.flush_options;
            break;
        case CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES:
            *value = (settings.flush_options & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS) != 0;
            break;
        case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
            *value = settings.writes_ordering;
            break;
        case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
            *value = settings.dmabuf;
            break;
        default:
            *value = 0;
    }
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
    FAKECUDA_ENTER();
    if (!state().is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    const DeviceDescription& at = state().settings.devices[static_cast<std::size_t>(device)];
    const int written = std::snprintf(text, static_cast<std::size_t>(length), "%04X:%02X:%02X.0",
                                      at.pci_domain, at.bus, at.device);
    return written < length ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
    FAKECUDA_ENTER();
    unsigned domain = 0, bus = 0, number = 0;
    if (std::sscanf(text, "%x:%x:%x", &domain, &bus, &number) != 3) return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < state().device_count(); ++i) {
        const DeviceDescription& at = state().settings.devices[static_cast<std::size_t>(i)];
        if (at.pci_domain != domain || at.bus != bus || at.device != number) continue;
        *device = i;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
    FAKECUDA_ENTER();
    if (!state().is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *pool = reinterpret_cast<CUmemoryPool>(static_cast<std::uintptr_t>(0x1000 + 64 * device));
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
    FAKECUDA_ENTER();
    if (!state().is_device(device) || !state().is_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    FAKECUDA_ENTER();
    State& all = state();
    if (!all.is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    const std::lock_guard lock(all.mutex);
    const auto index = static_cast<std::size_t>(device);
    if (!all.primary[index]) FAKECUDA_TRY(make_context(device, true, all.primary[index]));
    ++all.primary_counts[index];
    *context = all.primary[index];
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    FAKECUDA_ENTER();
    State& all = state();
    if (!all.is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    const std::lock_guard lock(all.mutex);
    const auto index = static_cast<std::size_t>(device);
    if (all.primary_counts[index] == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--all.primary_counts[index] > 0) return CUDA_SUCCESS;
    destroy_context(all.primary[index]);
    all.primary[index] = nullptr;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
    FAKECUDA_ENTER();
    State& all = state();
    if (!all.is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    const std::lock_guard lock(all.mutex);
    const auto index = static_cast<std::size_t>(device);
    destroy_context(all.primary[index]);
    all.primary[index] = nullptr;
    all.primary_counts[index] = 0;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
    FAKECUDA_ENTER();
    State& all = state();
    if (!all.is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    const std::lock_guard lock(all.mutex);
    *flags = 0;
    *active = all.primary[static_cast<std::size_t>(device)] != nullptr;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext* context, unsigned, CUdevice device) {
    FAKECUDA_ENTER();
    State& all = state();
    if (!all.is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    const std::lock_guard lock(all.mutex);
    FAKECUDA_TRY(make_context(device, false, *context));
    context_stack().push_back(*context);
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext context) {
    FAKECUDA_ENTER();
    State& all = state();
    const std::lock_guard lock(all.mutex);
    const auto at = all.contexts.find(context);
    if (at == all.contexts.end() || at->second.primary) return CUDA_ERROR_INVALID_CONTEXT;
    destroy_context(context);
    auto& stack = context_stack();
    if (!stack.empty() && stack.back() == context) stack.pop_back();
    return CUDA_SUCCESS;
}

namespace {

bool is_context(CUcontext context) {
    State& all = state();
    const std::lock_guard lock(all.mutex);
    return all.contexts.count(context) > 0;
}

}  // namespace

CUresult cuCtxPushCurrent(CUcontext context) {
    FAKECUDA_ENTER();
    if (!is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    context_stack().push_back(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
    FAKECUDA_ENTER();
    auto& stack = context_stack();
    if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context) *context = stack.back();
    stack.pop_back();
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
    FAKECUDA_ENTER();
    if (context && !is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    auto& stack = context_stack();
    if (!stack.empty()) stack.pop_back();
    if (context) stack.push_back(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
    FAKECUDA_ENTER();
    *context = context_stack().empty() ? nullptr : context_stack().back();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
    FAKECUDA_ENTER();
    Context context;
    if (!current_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    *device = context.device;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
    FAKECUDA_ENTER();
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
    FAKECUDA_ENTER();
    Context context;
    if (!current_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    std::vector<std::shared_ptr<Stream>> streams{context.default_stream};
    {
        const std::lock_guard lock(state().mutex);
        for (const auto& [handle, stream] : state().streams) {
            if (stream->context == context.handle) streams.push_back(stream);
        }
    }
    CUresult result = CUDA_SUCCESS;
    for (const auto& stream : streams) {
        if (const CUresult error = stream->synchronize(); error != CUDA_SUCCESS) result = error;
    }
    return result;
}
