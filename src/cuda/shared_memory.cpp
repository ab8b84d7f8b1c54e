#include "cuda/shared_memory.h"

#include <cstring>

#include "common/log.h"
#include "common/status.h"
#include "cuda/driver.h"
#include "cuda/pointer_info.h"

namespace railyard::cuda {

static_assert(sizeof(CUipcMemHandle) == sizeof(SharedAllocation::handle));

namespace {

constexpr char no_ipc[] = "the driver has no CUDA IPC";

bool has_ipc(const Driver& driver) noexcept {
    return driver.ipc_get_mem_handle && driver.ipc_open_mem_handle && driver.ipc_close_mem_handle;
}

/// A kernel that leaves an allocation poisons the context. Empty: it has `length` bytes from `address` on.
std::string shorter_than(const Driver& driver, std::uint64_t address, std::uint64_t length) {
    try {
        const PointerInfo info = describe_range(driver, address, 1);
        if (info.start <= address && length <= info.length - (address - info.start)) return {};
        return "the allocation has " + std::to_string(info.length) + " bytes, not " + std::to_string(length);
    } catch (const Error& error) {
        return error.what();
    }
}

}  // namespace

ShareResult share(const PrimaryContext& context, const PointerInfo& info) {
    const Driver& driver = context.driver();
    if (info.kind != MemoryKind::plain) return {std::nullopt, std::string("it is ") + to_string(info.kind)};
    if (!has_ipc(driver)) return {std::nullopt, no_ipc};
    const ContextGuard guard(context);
    if (!guard.pushed()) return {std::nullopt, "the context is gone"};
    CUipcMemHandle handle{};
    const CUresult result = driver.ipc_get_mem_handle(&handle, info.start);
    if (result != CUDA_SUCCESS) return {std::nullopt, "cuIpcGetMemHandle: " + describe(driver, result)};
    SharedAllocation allocation{{}, info.start, info.length, info.buffer_id};
    std::memcpy(allocation.handle.data(), &handle, sizeof(handle));
    return {allocation, {}};
}

std::string open_shared(const PrimaryContext& context, const SharedAllocation& allocation,
                        std::uint64_t& address) {
    const Driver& driver = context.driver();
    if (!has_ipc(driver)) return no_ipc;
    const ContextGuard guard(context);
    if (!guard.pushed()) return "the context is gone";
    CUipcMemHandle handle;
    std::memcpy(&handle, allocation.handle.data(), sizeof(handle));
    CUdeviceptr opened = 0;
    const CUresult result = driver.ipc_open_mem_handle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result != CUDA_SUCCESS) return "cuIpcOpenMemHandle: " + describe(driver, result);
    try {
        std::string why = shorter_than(driver, opened, allocation.length);
        if (why.empty()) {
            address = opened;
        } else {
            close_shared(context, opened);
        }
        return why;
    } catch (...) {  // no memory for the reason
        close_shared(context, opened);
        throw;
    }
}

void close_shared(const PrimaryContext& context, std::uint64_t address) noexcept {
    const Driver& driver = context.driver();
    const ContextGuard guard(context);
    if (!guard.pushed()) return;
    const CUresult result = driver.ipc_close_mem_handle(address);
    if (result != CUDA_SUCCESS)
        RAILYARD_LOG(warn, "cuda", "cuIpcCloseMemHandle: %s", error_name(driver, result));
}

}  // namespace railyard::cuda
