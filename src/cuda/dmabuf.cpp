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

DmaBufExport export_dmabuf(const PrimaryContext& context, const Device& device, const PointerInfo& info) {
    const Driver& driver = context.driver();
    if (!device.dma_buf || !driver.mem_get_handle_for_address_range)
        return {std::nullopt, "device " + std::to_string(device.ordinal) + " has no dmabuf"};
    if (info.mappings != 1)
        return {std::nullopt,
                "the range spans " + std::to_string(info.mappings) + " mappings of virtual memory"};
    const ContextGuard guard(context);
    if (!guard.pushed()) return {std::nullopt, "the context is gone"};
    const PageRange pages =
        pages_of(info.start, info.length, static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
    int fd = -1;
    const CUresult result = driver.mem_get_handle_for_address_range(&fd, pages.start, pages.length,
                                                                    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    if (result != CUDA_SUCCESS)
        return {std::nullopt, "cuMemGetHandleForAddressRange: " + describe(driver, result)};
    return {DmaBuf(fd, pages.start), {}};
}

}  // namespace railyard::cuda
