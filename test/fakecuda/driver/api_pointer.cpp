// What an address is, its dmabuf, and the flush.
#include <algorithm>
#include <cstring>

#include "api.h"
#include "state.h"

using namespace fakecuda;

namespace {

template <class T>
void put(void* value, T what) {
    std::memcpy(value, &what, sizeof(what));
}

/// Attributes of an address; `known` false: the driver does not know it.
CUresult attribute_of(const Range& range, bool known, CUpointer_attribute attribute, CUdeviceptr address,
                      void* value) {
    const bool device_memory = range.on_device();
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
            put(value, range.context);  // none for VMM and pools, which belong to a device
            return !known ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            put(value, device_memory ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            put(value, address);
            break;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            if (device_memory && range.kind != Kind::managed) return CUDA_ERROR_INVALID_VALUE;
            put(value, address);
            break;
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
            put(value, range.sync_memops ? 1 : 0);
            break;
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
            put(value, range.buffer_id);
            break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            put(value, range.kind == Kind::managed ? 1U : 0U);
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            put(value, range.device);
            break;
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
            put(value, range.kind == Kind::device || range.kind == Kind::imported ? 1 : 0);
            break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            put(value, range.start);
            break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            put(value, range.length);
            break;
        case CU_POINTER_ATTRIBUTE_MAPPED:
            put(value, 1);
            break;
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
            put(value, std::uint64_t{0});
            break;
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
            put(value, device_memory && range.gpu_direct ? 1 : 0);
            break;
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
            put(value, 3);
            break;
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
            put(value, range.kind == Kind::pool ? static_cast<std::uintptr_t>(0x1000 + 64 * range.device)
                                                : std::uintptr_t{0});
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

std::size_t size_of(CUpointer_attribute attribute) {
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_MAPPED:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
            return 4;
        default:
            return 8;
    }
}

}  // namespace

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
    FAKECUDA_ENTER();
    Range range;
    if (!state().memory.find(address, range)) return CUDA_ERROR_INVALID_VALUE;
    return attribute_of(range, true, attribute, address, value);
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                CUdeviceptr address) {
    FAKECUDA_ENTER();
    Range range;
    const bool known = state().memory.find(address, range);
    for (unsigned i = 0; i < count; ++i) {
        // Of memory that the driver does not know every attribute is 0, the ordinal -2, and the call
        // succeeds.
        if (!known || attribute_of(range, true, attributes[i], address, values[i]) != CUDA_SUCCESS)
            std::memset(values[i], 0, size_of(attributes[i]));
        if (!known && attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) put(values[i], -2);
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address) {
    FAKECUDA_ENTER();
    Context context;
    if (!current_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    Range range;
    if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !state().memory.find(address, range) ||
        !range.on_device() || range.kind == Kind::pool || range.kind == Kind::vmm)
        return CUDA_ERROR_INVALID_VALUE;
    int on = 0;
    std::memcpy(&on, value, sizeof(on));
    range.sync_memops = on != 0;
    state().memory.update(range.start, range);
    return CUDA_SUCCESS;
}

namespace {

/// Mappings of one reservation, whose memory has the same properties; others have no dmabuf in common.
bool continues(const Range& first, const Range& next) {
    return next.kind == Kind::vmm && first.kind == Kind::vmm && next.reservation == first.reservation &&
           next.device == first.device && next.gpu_direct == first.gpu_direct;
}

/// Whole pages, which an allocation need not fill.
CUresult dma_buf_of(CUdeviceptr address, std::size_t bytes, DmaBuf& out) {
    Range first;
    // A page's last byte is in the range wherever in the page that starts.
    if (!state().memory.find(address, first) && !state().memory.find(address + page - 1, first))
        return CUDA_ERROR_INVALID_VALUE;
    if (first.kind == Kind::managed || !first.on_device() || !first.gpu_direct)
        return CUDA_ERROR_NOT_SUPPORTED;
    out.bridge = state().settings.devices[static_cast<std::size_t>(first.device)].bridge;
    for (Range range = first;;) {
        const CUdeviceptr start = range.start / page * page;
        const CUdeviceptr end = start + round_up(range.start - start + range.length, page);
        const std::size_t part = std::min<std::size_t>(bytes, end - address);
        out.pieces.push_back(
            {range.backing, range.backing_offset - (range.start - start) + (address - start), part});
        address += part;
        bytes -= part;
        if (bytes == 0) return CUDA_SUCCESS;
        if (!state().memory.find(address, range) || !continues(first, range)) return CUDA_ERROR_INVALID_VALUE;
    }
}

}  // namespace

CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, std::size_t bytes,
                                       CUmemRangeHandleType type, unsigned long long flags) {
    FAKECUDA_ENTER();
    if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || address % page != 0 || bytes % page != 0 || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    const bool bar1 = flags == CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE, c2c = state().c2c;
    if (flags != 0 && !bar1) return CUDA_ERROR_INVALID_VALUE;
    if (!state().settings.dmabuf || (bar1 && !c2c)) return CUDA_ERROR_NOT_SUPPORTED;
    DmaBuf buffer;
    FAKECUDA_TRY(dma_buf_of(address, bytes, buffer));
    if (c2c) buffer.window = bar1 ? Window::bar1 : Window::c2c;
    const int fd = state().dma_bufs.make(std::move(buffer));
    if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    put(handle, fd);
    return CUDA_SUCCESS;
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                    CUflushGPUDirectRDMAWritesScope scope) {
    FAKECUDA_ENTER();
    Context context;
    if (!current_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
        (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
         scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
        return CUDA_ERROR_INVALID_VALUE;
    State& all = state();
    if (!(all.settings.flush_options & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST))
        return CUDA_ERROR_NOT_SUPPORTED;
    ++all.flushes;
    all.memory.flush(scope == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER ? context.device : -1);
    return CUDA_SUCCESS;
}
