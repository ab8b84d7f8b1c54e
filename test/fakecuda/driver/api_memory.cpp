// Allocations: of devices, managed, pinned on the host.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "api.h"
#include "state.h"

using namespace fakecuda;

namespace {

/// Allocations of this size and more start on a boundary of it, as the driver's do; smaller ones somewhere in
/// a page, so that nobody takes an allocation's start for a page's.
constexpr std::size_t large_allocation = std::size_t{2} << 20;

/// Where an allocation lies that adjoins the last one; 0: it lies anywhere. Addresses are not used twice.
CUdeviceptr behind_the_last(std::size_t bytes) {
    constexpr std::size_t unit = 256, room = std::size_t{1} << 30;
    State& all = state();
    if (!all.adjoining || !all.settings.guard) return 0;
    const std::lock_guard lock(all.mutex);
    const std::size_t length = round_up(bytes, unit);
    if (all.adjoining_end - all.adjoining_next < length) {
        const std::size_t reserved = std::max(room, length);
        all.adjoining_next = reserve_addresses(reserved);
        if (all.adjoining_next == 0) return all.adjoining_end = 0;
        all.adjoining_end = all.adjoining_next + reserved;
    }
    all.adjoining_next += length;
    return all.adjoining_next - length;
}

CUresult allocate(CUdeviceptr* address, std::size_t bytes, Kind kind) {
    Context context;
    if (!current_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (bytes == 0 || !address) return CUDA_ERROR_INVALID_VALUE;
    State& all = state();
    const bool shared = kind == Kind::managed;
    if (all.memory.used(context.device) + bytes > all.settings.memory) return CUDA_ERROR_OUT_OF_MEMORY;
    Range range;
    range.kind = kind;
    range.length = bytes;
    range.context = context.handle;
    range.device = context.device;
    range.buffer_id = all.next_buffer++;
    range.gpu_direct = all.settings.gpu_direct && !shared;
    // 256 to 3840 bytes into the first page.
    range.backing_offset = bytes < large_allocation && !shared ? 256 * (1 + range.buffer_id % 15) : 0;
    range.start = kind == Kind::device ? behind_the_last(bytes) : 0;
    if (range.start != 0) range.backing_offset = range.start % page;
    range.backing = Backing::make(bytes + range.backing_offset, all.settings.late && !shared);
    if (!range.backing) return CUDA_ERROR_OUT_OF_MEMORY;
    if (range.start == 0) {
        FAKECUDA_TRY(place(range));
    }
    all.memory.add(range);
    *address = range.start;
    return CUDA_SUCCESS;
}

}  // namespace

CUresult fakecuda::place(Range& range) {
    if (!state().settings.guard || range.kind == Kind::managed) {
        range.start = reinterpret_cast<CUdeviceptr>(range.backing->bytes) + range.backing_offset;
        return CUDA_SUCCESS;
    }
    range.guard_length = round_up(range.backing->length, large_allocation) + large_allocation;
    range.guard_start = reserve_addresses(range.guard_length);
    if (!range.guard_start) return CUDA_ERROR_OUT_OF_MEMORY;
    range.start = round_up(range.guard_start, large_allocation) + range.backing_offset;
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(std::size_t* free, std::size_t* total) {
    FAKECUDA_ENTER();
    Context context;
    if (!current_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    *total = state().settings.memory;
    *free = *total - state().memory.used(context.device);
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr* address, std::size_t bytes) {
    FAKECUDA_ENTER();
    FAKECUDA_TRY(unsafe_while_capturing());
    return allocate(address, bytes, Kind::device);
}

CUresult cuMemFree(CUdeviceptr address) {
    FAKECUDA_ENTER();
    if (address == 0) return CUDA_SUCCESS;
    Context context;
    if (!current_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    return state().memory.remove(address, {Kind::device, Kind::managed, Kind::pool})
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocManaged(CUdeviceptr* address, std::size_t bytes, unsigned flags) {
    FAKECUDA_ENTER();
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
    return allocate(address, bytes, Kind::managed);
}

CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t bytes, CUstream stream) {
    FAKECUDA_ENTER();
    std::shared_ptr<Stream> found;
    FAKECUDA_TRY(find_stream(stream, found));
    return allocate(address, bytes, Kind::pool);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    FAKECUDA_ENTER();
    std::shared_ptr<Stream> found;
    FAKECUDA_TRY(find_stream(stream, found));
    Range range;
    if (!state().memory.find(address, range) || range.start != address || range.kind != Kind::pool)
        return CUDA_ERROR_INVALID_VALUE;
    found->enqueue([address] {
        return state().memory.remove(address, {Kind::pool}) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    });
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr* start, std::size_t* bytes, CUdeviceptr address) {
    FAKECUDA_ENTER();
    Context context;
    if (!current_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    Range range;
    if (!state().memory.find(address, range)) return CUDA_ERROR_NOT_FOUND;
    if (start) *start = range.start;
    if (bytes) *bytes = range.length;
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned flags) {
    FAKECUDA_ENTER();
    FAKECUDA_TRY(unsafe_while_capturing());
    Context context;
    if (!current_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    Range range;
    range.kind = Kind::host;
    range.length = bytes;
    range.context = context.handle;
    range.device = context.device;
    range.flags = flags;
    range.buffer_id = state().next_buffer++;
    range.guard_length = round_up(bytes, page);
    void* made =
        mmap(nullptr, range.guard_length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    range.start = range.guard_start = reinterpret_cast<CUdeviceptr>(made);
    state().memory.add(range);
    *pointer = made;
    return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* pointer) {
    FAKECUDA_ENTER();
    Context context;
    if (!current_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    return state().memory.remove(reinterpret_cast<CUdeviceptr>(pointer), {Kind::host})
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostRegister(void* pointer, std::size_t bytes, unsigned flags) {
    FAKECUDA_ENTER();
    Context context;
    if (!current_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (!pointer || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    const auto start = reinterpret_cast<CUdeviceptr>(pointer);
    Range range;
    if (state().memory.find(start, range) || state().memory.find(start + bytes - 1, range))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    range = Range{};
    range.kind = Kind::registered;
    range.start = start;
    range.length = bytes;
    range.context = context.handle;
    range.device = context.device;
    range.flags = flags;
    range.buffer_id = state().next_buffer++;
    state().memory.add(range);
    return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void* pointer) {
    FAKECUDA_ENTER();
    return state().memory.remove(reinterpret_cast<CUdeviceptr>(pointer), {Kind::registered})
               ? CUDA_SUCCESS
               : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* address, void* pointer, unsigned flags) {
    FAKECUDA_ENTER();
    Range range;
    const auto at = reinterpret_cast<CUdeviceptr>(pointer);
    if (flags != 0 || !state().memory.find(at, range) || range.on_device()) return CUDA_ERROR_INVALID_VALUE;
    *address = at;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned* flags, void* pointer) {
    FAKECUDA_ENTER();
    Range range;
    if (!state().memory.find(reinterpret_cast<CUdeviceptr>(pointer), range) || range.on_device())
        return CUDA_ERROR_INVALID_VALUE;
    *flags = range.flags;
    return CUDA_SUCCESS;
}
