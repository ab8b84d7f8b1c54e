// Virtual memory: address ranges and physical memory of their own, joined by mappings.
#include <sys/mman.h>

#include "api.h"
#include "state.h"

using namespace fakecuda;

namespace {

constexpr std::size_t granularity = std::size_t{2} << 20;

bool whole(std::size_t value) {
    return value > 0 && value % granularity == 0;
}

}  // namespace

CUresult cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
    FAKECUDA_ENTER();
    *bytes = granularity;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t bytes, std::size_t, CUdeviceptr wish,
                             unsigned long long flags) {
    FAKECUDA_ENTER();
    if (!whole(bytes) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    // The addresses always fault; a bit more, for the boundary.
    const CUdeviceptr start = reserve_addresses(bytes + granularity, wish);
    if (!start) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = round_up(start, granularity);
    if (*address > start) munmap(reinterpret_cast<void*>(start), *address - start);
    if (*address < start + granularity)
        munmap(reinterpret_cast<void*>(*address + bytes), start + granularity - *address);
    const std::lock_guard lock(state().mutex);
    state().reservations[*address] = bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, std::size_t bytes) {
    FAKECUDA_ENTER();
    State& all = state();
    const std::lock_guard lock(all.mutex);
    const auto at = all.reservations.find(address);
    if (at == all.reservations.end() || at->second != bytes) return CUDA_ERROR_INVALID_VALUE;
    Range range;
    for (CUdeviceptr place = address; place < address + bytes; place += granularity) {
        if (all.memory.find(place, range)) return CUDA_ERROR_INVALID_VALUE;
    }
    munmap(reinterpret_cast<void*>(address), bytes);
    all.reservations.erase(at);
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
    FAKECUDA_ENTER();
    State& all = state();
    if (!whole(bytes) || flags != 0 || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || !all.is_device(properties->location.id))
        return CUDA_ERROR_INVALID_VALUE;
    Handle made;
    made.backing = Backing::make(bytes, all.settings.late);
    if (!made.backing) return CUDA_ERROR_OUT_OF_MEMORY;
    made.length = bytes;
    made.device = properties->location.id;
    made.gpu_direct = all.settings.gpu_direct && properties->allocFlags.gpuDirectRDMACapable != 0;
    const std::lock_guard lock(all.mutex);
    *handle = 64 * all.next_handle++;
    all.handles[*handle] = made;
    return CUDA_SUCCESS;
}

namespace {

void forget_if_unused(State& all, CUmemGenericAllocationHandle handle) {
    const auto at = all.handles.find(handle);
    if (at != all.handles.end() && at->second.references == 0 && at->second.mappings == 0)
        all.handles.erase(at);
}

}  // namespace

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    FAKECUDA_ENTER();
    State& all = state();
    const std::lock_guard lock(all.mutex);
    const auto at = all.handles.find(handle);
    if (at == all.handles.end() || at->second.references == 0) return CUDA_ERROR_INVALID_VALUE;
    --at->second.references;
    forget_if_unused(all, handle);
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
    FAKECUDA_ENTER();
    State& all = state();
    Range range;
    if (!all.memory.find(reinterpret_cast<CUdeviceptr>(address), range) || range.kind != Kind::vmm)
        return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard lock(all.mutex);
    const auto at = all.handles.find(range.handle);
    if (at == all.handles.end()) return CUDA_ERROR_INVALID_VALUE;
    ++at->second.references;
    *handle = range.handle;
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
    FAKECUDA_ENTER();
    State& all = state();
    const std::lock_guard lock(all.mutex);
    const auto at = all.handles.find(handle);
    auto reserved = all.reservations.upper_bound(address);
    if (at == all.handles.end() || reserved == all.reservations.begin() || flags != 0 || !whole(bytes) ||
        address % granularity != 0 || offset != 0 || bytes != at->second.length)
        return CUDA_ERROR_INVALID_VALUE;
    --reserved;
    if (address + bytes > reserved->first + reserved->second) return CUDA_ERROR_INVALID_VALUE;
    Range range;
    for (CUdeviceptr place = address; place < address + bytes; place += granularity) {
        if (all.memory.find(place, range)) return CUDA_ERROR_INVALID_VALUE;
    }
    range = Range{};
    range.kind = Kind::vmm;
    range.start = address;
    range.length = bytes;
    range.device = at->second.device;
    range.buffer_id = all.next_buffer++;
    range.accessible = false;
    range.gpu_direct = at->second.gpu_direct;
    range.backing = at->second.backing;
    range.handle = handle;
    range.reservation = reserved->first;
    ++at->second.mappings;
    all.memory.add(range);
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
    FAKECUDA_ENTER();
    State& all = state();
    const std::lock_guard lock(all.mutex);
    for (CUdeviceptr place = address; place < address + bytes;) {
        Range range;
        if (!all.memory.remove(place, {Kind::vmm}, &range)) return CUDA_ERROR_INVALID_VALUE;
        --all.handles[range.handle].mappings;
        forget_if_unused(all, range.handle);
        place += range.length;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access,
                        std::size_t count) {
    FAKECUDA_ENTER();
    for (CUdeviceptr place = address; place < address + bytes;) {
        Range range;
        if (!state().memory.find(place, range) || range.kind != Kind::vmm) return CUDA_ERROR_INVALID_VALUE;
        for (std::size_t i = 0; i < count; ++i) {
            if (access[i].location.id == range.device)
                range.accessible = access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        }
        state().memory.update(range.start, range);
        place = range.start + range.length;
    }
    return CUDA_SUCCESS;
}
