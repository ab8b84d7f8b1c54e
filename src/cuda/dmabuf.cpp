#include "cuda/dmabuf.h"

#include <unistd.h>

#include "cuda/context_guard.h"
#include "cuda/device.h"
#include "cuda/driver.h"

namespace railyard::cuda {

namespace {

/// What drivers before 12.8 answer to the flag, and later ones where there is one window. Anything else,
/// BAR1's being full for one, does not speak for another window.
bool is_refusal(CUresult answer) {
    return answer == CUDA_ERROR_INVALID_VALUE || answer == CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

PageRange pages_of(std::uint64_t start, std::uint64_t length, std::uint64_t page) noexcept {
    const std::uint64_t first = start / page * page;
    const std::uint64_t end = (start + length + page - 1) / page * page;
    return {first, end - first};
}

DmaBuf::~DmaBuf() {
    if (fd_ >= 0) close(fd_);
}

DmaBufExport export_dmabuf(const PrimaryContext& context, const Device& device, const PointerInfo& info,
                           std::uint64_t address, std::uint64_t length, DmaBufMapping mapping) {
    const Driver& driver = context.driver();
    if (!device.dma_buf || !driver.mem_get_handle_for_address_range)
        return {std::nullopt, "device " + std::to_string(device.ordinal) + " has no dmabuf"};
    const ContextGuard guard(context);
    if (!guard.pushed()) return {std::nullopt, "the context is gone"};
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const PageRange wanted = pages_of(address, length, page), whole = pages_of(info.start, info.length, page);
    const bool is_whole = wanted.start == whole.start && wanted.length == whole.length;
    CUresult result = CUDA_SUCCESS;  // of the first of each pair
    bool is_refused = true;          // by nothing but refusals
    const auto ask = [&](unsigned long long flags) -> std::optional<DmaBuf> {
        int fd = -1;
        const auto of = [&](const PageRange& pages) {
            const CUresult answer = driver.mem_get_handle_for_address_range(
                &fd, pages.start, pages.length, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
            is_refused = is_refused && is_refusal(answer);
            return answer;
        };
        result = of(wanted);
        if (result == CUDA_SUCCESS) return DmaBuf(fd, wanted.start);
        if (!is_whole && of(whole) == CUDA_SUCCESS) return DmaBuf(fd, whole.start);
        return std::nullopt;
    };
    if (mapping == DmaBufMapping::pcie) {
        if (auto made = ask(CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE))
            return {std::move(made), {}, DmaBufMapping::pcie};
    }
    if (mapping == DmaBufMapping::usual || is_refused) {
        if (auto made = ask(0)) return {std::move(made), {}};
    }
    std::string reason = "cuMemGetHandleForAddressRange: " + describe(driver, result);
    if (info.mappings > 1)
        reason += "; the range spans " + std::to_string(info.mappings) + " mappings of virtual memory";
    return {std::nullopt, std::move(reason)};
}

}  // namespace railyard::cuda
