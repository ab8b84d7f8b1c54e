#include "cuda/dmabuf.h"

#include <unistd.h>

#include "cuda/context_guard.h"
#include "cuda/device.h"
#include "cuda/driver.h"

namespace railyard::cuda {

PageRange pages_of(std::uint64_t start, std::uint64_t length, std::uint64_t page) noexcept {
    const std::uint64_t first = start / page * page;
    const std::uint64_t end = (start + length + page - 1) / page * page;
    return {first, end - first};
}

DmaBuf::~DmaBuf() {
    if (fd_ >= 0) close(fd_);
}

DmaBufExport export_dmabuf(const PrimaryContext& context, const Device& device, const PointerInfo& info,
                           std::uint64_t address, std::uint64_t length) {
    const Driver& driver = context.driver();
    if (!device.dma_buf || !driver.mem_get_handle_for_address_range)
        return {std::nullopt, "device " + std::to_string(device.ordinal) + " has no dmabuf"};
    const ContextGuard guard(context);
    if (!guard.pushed()) return {std::nullopt, "the context is gone"};
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const PageRange wanted = pages_of(address, length, page), whole = pages_of(info.start, info.length, page);
    int fd = -1;
    const auto ask = [&](const PageRange& pages) {
        return driver.mem_get_handle_for_address_range(&fd, pages.start, pages.length,
                                                       CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    };
    const CUresult result = ask(wanted);
    if (result == CUDA_SUCCESS) return {DmaBuf(fd, wanted.start), {}};
    const bool is_whole = wanted.start == whole.start && wanted.length == whole.length;
    if (!is_whole && ask(whole) == CUDA_SUCCESS) return {DmaBuf(fd, whole.start), {}};
    std::string reason = "cuMemGetHandleForAddressRange: " + describe(driver, result);
    if (info.mappings > 1)
        reason += "; the range spans " + std::to_string(info.mappings) + " mappings of virtual memory";
    return {std::nullopt, std::move(reason)};
}

}  // namespace railyard::cuda
