#include "cuda/pointer_info.h"

#include <array>
#include <cstdio>

#include "common/status.h"
#include "cuda/driver.h"

namespace railyard::cuda {
namespace {

/// Room for an attribute of any size; what the driver leaves out reads 0.
struct Attributes {
    std::uint64_t type = 0, managed = 0, context = 0, start = 0, length = 0, legacy_ipc = 0, pool = 0,
                  gpu_direct = 0, buffer_id = 0;
    int device = -1;
};

Attributes ask(const Driver& driver, std::uint64_t address) {
    Attributes out;
    std::array<CUpointer_attribute, 10> which = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_CONTEXT,        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,     CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
        CU_POINTER_ATTRIBUTE_BUFFER_ID,      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    };
    std::array<void*, 10> values = {&out.type,      &out.managed,    &out.context, &out.start,
                                    &out.length,    &out.legacy_ipc, &out.pool,    &out.gpu_direct,
                                    &out.buffer_id, &out.device};
    check(driver,
          driver.pointer_get_attributes(static_cast<unsigned>(which.size()), which.data(), values.data(),
                                        address),
          "cuPointerGetAttributes");
    return out;
}

/// Memory of cuMemAlloc can be shared by the old calls, that of cuMemCreate cannot. But on some devices
/// nothing can, so the mapping is asked for, too.
bool is_mapping(const Driver& driver, std::uint64_t address) {
    CUmemGenericAllocationHandle handle = 0;
    if (!driver.mem_retain_allocation_handle || !driver.mem_release) return false;
    if (driver.mem_retain_allocation_handle(&handle, reinterpret_cast<void*>(address)) != CUDA_SUCCESS)
        return false;
    driver.mem_release(handle);
    return true;
}

MemoryKind kind_of(const Driver& driver, const Attributes& attributes, std::uint64_t address) {
    if (attributes.managed) return MemoryKind::managed;
    if (attributes.type == CU_MEMORYTYPE_HOST) return MemoryKind::host;
    if (attributes.type != CU_MEMORYTYPE_DEVICE) return MemoryKind::unknown;
    if (attributes.pool) return MemoryKind::pool;
    if (!attributes.legacy_ipc && is_mapping(driver, address)) return MemoryKind::virtual_memory;
    return MemoryKind::plain;
}

PointerInfo describe_one(const Driver& driver, std::uint64_t address) {
    const Attributes attributes = ask(driver, address);
    PointerInfo info;
    info.kind = kind_of(driver, attributes, address);
    info.device = attributes.device;
    info.start = attributes.start;
    info.length = attributes.length;
    info.gpu_direct_capable = attributes.gpu_direct != 0;
    info.buffer_id = attributes.buffer_id;
    info.context = reinterpret_cast<CUctx_st*>(attributes.context);
    return info;
}

std::string range_text(std::uint64_t address, std::uint64_t length) {
    char text[80];
    std::snprintf(text, sizeof(text), "GPU memory 0x%llx, %llu bytes",
                  static_cast<unsigned long long>(address), static_cast<unsigned long long>(length));
    return text;
}

}  // namespace

const char* to_string(MemoryKind kind) noexcept {
    switch (kind) {
        case MemoryKind::unknown:
            return "unknown";
        case MemoryKind::host:
            return "pinned host memory";
        case MemoryKind::plain:
            return "device memory";
        case MemoryKind::pool:
            return "memory of a pool";
        case MemoryKind::virtual_memory:
            return "virtual memory";
        case MemoryKind::managed:
            return "managed memory";
    }
    return "unknown";
}

PointerInfo describe_range(const Driver& driver, std::uint64_t address, std::uint64_t length) {
    PointerInfo info = describe_one(driver, address);
    while (info.kind == MemoryKind::virtual_memory && length > info.start + info.length - address) {
        const PointerInfo next = describe_one(driver, info.start + info.length);
        if (next.kind != MemoryKind::virtual_memory || next.device != info.device || next.length == 0) break;
        info.length += next.length;
        info.mappings += next.mappings;
        info.gpu_direct_capable = info.gpu_direct_capable && next.gpu_direct_capable;
    }
    return info;
}

void require_device_range(const PointerInfo& info, std::uint64_t address, std::uint64_t length, int ordinal) {
    const std::string range = range_text(address, length);
    if (info.kind == MemoryKind::unknown) {
        throw Error(Status::invalid_param,
                    range + " of device " + std::to_string(ordinal) +
                        ": the CUDA driver does not know it; is it host memory, or freed?");
    }
    if (info.kind == MemoryKind::host)
        throw Error(Status::invalid_param, range + ": it is pinned host memory; register it as DRAM");
    if (info.kind == MemoryKind::managed) {
        throw Error(Status::not_supported,
                    range +
                        ": managed memory moves between host and device, so no NIC can hold "
                        "it; allocate it with cuMemAlloc or cudaMalloc");
    }
    if (info.device != ordinal) {
        throw Error(Status::invalid_param, range + ": it lies on device " + std::to_string(info.device) +
                                               ", not " + std::to_string(ordinal));
    }
    const std::uint64_t inside = address - info.start;
    if (address < info.start || inside >= info.length || length > info.length - inside) {
        throw Error(Status::invalid_param, range + ": it leaves its allocation, which has " +
                                               std::to_string(info.length) + " bytes from offset -" +
                                               std::to_string(inside) + " on");
    }
}

bool set_sync_memops(const Driver& driver, std::uint64_t address) noexcept {
    const unsigned on = 1;
    return driver.pointer_set_attribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address) == CUDA_SUCCESS;
}

}  // namespace railyard::cuda
