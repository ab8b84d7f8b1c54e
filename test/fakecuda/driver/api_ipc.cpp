// Memory of another process: handles that name a memfd there, which is mapped here once more.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "api.h"
#include "state.h"

using namespace fakecuda;

namespace {

constexpr std::uint64_t right_magic = 0x6361726b61646366;

/// What lies in a CUipcMemHandle.
struct Name {
    std::uint64_t magic = right_magic;
    std::int32_t process = 0, descriptor = 0;
    DeviceDescription device;
    std::uint64_t offset = 0, length = 0;  ///< of the allocation, in the memfd
    std::uint64_t buffer_id = 0;
};
static_assert(sizeof(Name) <= sizeof(CUipcMemHandle));

bool same(const DeviceDescription& one, const DeviceDescription& other) {
    return one.pci_domain == other.pci_domain && one.bus == other.bus && one.device == other.device;
}

int ordinal_of(const DeviceDescription& wanted) {
    const std::vector<DeviceDescription>& devices = state().settings.devices;
    for (std::size_t i = 0; i < devices.size(); ++i) {
        if (same(devices[i], wanted)) return static_cast<int>(i);
    }
    return -1;
}

std::shared_ptr<Backing> backing_of(const Name& name) {
    const std::string file =
        "/proc/" + std::to_string(name.process) + "/fd/" + std::to_string(name.descriptor);
    const int fd = open(file.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
    return fd < 0 ? nullptr : Backing::of(fd, name.offset + name.length);
}

/// The caller holds the mutex.
CUresult import(const Name& name, const Context& context, CUdeviceptr& address) {
    Range range;
    range.kind = Kind::imported;
    range.device = ordinal_of(name.device);
    if (range.device < 0) return CUDA_ERROR_INVALID_DEVICE;
    range.length = name.length;
    range.context = context.handle;
    range.buffer_id = state().next_buffer++;
    range.backing_offset = name.offset;
    range.backing = backing_of(name);
    if (!range.backing) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult placed = place(range); placed != CUDA_SUCCESS) return placed;
    state().memory.add(range);
    address = range.start;
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
    FAKECUDA_ENTER();
    const State& all = state();
    Range range;
    if (!handle || !all.memory.find(address, range) || range.kind != Kind::device)
        return CUDA_ERROR_INVALID_VALUE;
    // What NICs write late is seen late in this process alone.
    if (all.settings.late) return CUDA_ERROR_NOT_SUPPORTED;
    Name made;
    made.process = getpid();
    made.descriptor = range.backing->fd;
    made.device = all.settings.devices[static_cast<std::size_t>(range.device)];
    made.offset = range.backing_offset;
    made.length = range.length;
    made.buffer_id = range.buffer_id;
    *handle = {};
    std::memcpy(handle->reserved, &made, sizeof(made));
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
    FAKECUDA_ENTER();
    FAKECUDA_TRY(unsafe_while_capturing());
    Context context;
    if (!current_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    Name named;
    std::memcpy(&named, handle.reserved, sizeof(named));
    if (!address || named.magic != right_magic || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    if (named.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
    State& all = state();
    const std::lock_guard lock(all.mutex);
    Import& known = all.imports[{context.handle, std::string(handle.reserved, sizeof(handle.reserved))}];
    Range range;
    if (known.opens > 0 && all.memory.find(known.address, range) && range.kind == Kind::imported) {
        ++known.opens;
    } else {
        FAKECUDA_TRY(import(named, context, known.address));
        known.opens = 1;
    }
    *address = known.address;
    return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
    FAKECUDA_ENTER();
    Context context;
    if (!current_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
    State& all = state();
    const std::lock_guard lock(all.mutex);
    for (auto at = all.imports.begin(); at != all.imports.end(); ++at) {
        if (at->second.address != address || at->second.opens == 0) continue;
        if (--at->second.opens > 0) return CUDA_SUCCESS;
        all.imports.erase(at);
        return all.memory.remove(address, {Kind::imported}) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_ERROR_INVALID_VALUE;
}
