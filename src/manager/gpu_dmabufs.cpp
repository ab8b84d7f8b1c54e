#include "manager/gpu_dmabufs.h"

#include <utility>

#include "common/log.h"
#include "common/status.h"
#include "cuda/context_guard.h"

namespace railyard {

using cuda::DmaBufMapping;

GpuDmabufs::GpuDmabufs(Gpu& gpu, const cuda::PointerInfo& memory, std::uint64_t address, std::uint64_t length)
    : gpu_(gpu), context_(gpu.context()), memory_(memory), address_(address), length_(length) {}

/// A driver that has refused BAR1 once is not asked for it again. Of one that has granted it the usual window
/// is another, so that a later refusal leaves none.
const cuda::DmaBufExport& GpuDmabufs::made(DmaBufMapping wanted) {
    if (wanted == DmaBufMapping::pcie && gpu_.window() != GpuWindow::one) {
        if (pcie_) return *pcie_;
        cuda::DmaBufExport made =
            cuda::export_dmabuf(*context_, gpu_.device(), memory_, address_, length_, DmaBufMapping::pcie);
        if (!made.dmabuf) return pcie_.emplace(std::move(made));
        if (made.mapping == DmaBufMapping::pcie) {
            gpu_.note_window(GpuWindow::two);
            return pcie_.emplace(std::move(made));
        }
        gpu_.note_window(GpuWindow::one);
        if (gpu_.window() != GpuWindow::one)
            return pcie_.emplace(cuda::DmaBufExport{std::nullopt, "the driver refuses BAR1 for this memory"});
        if (!usual_) usual_ = std::move(made);
    }
    if (!usual_) usual_ = cuda::export_dmabuf(*context_, gpu_.device(), memory_, address_, length_);
    return *usual_;
}

/// Without a descriptor where there is none.
MemoryRange GpuDmabufs::with_dmabuf(MemoryRange range, DmaBufMapping wanted) {
    const MutexLock lock(mutex_);
    const cuda::DmaBufExport& of = made(wanted);
    if (!of.dmabuf) return range;
    range.dmabuf = of.dmabuf->fd();
    range.dmabuf_base = of.dmabuf->base();
    range.dmabuf_alone = of.mapping == DmaBufMapping::pcie;
    return range;
}

RegisteredMemory GpuDmabufs::register_on(Rail& rail, bool below_its_switch, const MemoryRange& range) {
    // A provider that is given an address asks the driver itself, in whatever thread this is.
    const cuda::ContextGuard guard(*context_);
    if (below_its_switch) {
        const MemoryRange described = with_dmabuf(range, DmaBufMapping::pcie);
        try {
            return rail.register_memory(described);
        } catch (const Error& error) {
            // mlx5 refuses BAR1 with error 524 where its NIC is to go through the CPU.
            if (!described.dmabuf_alone || error.status() != Status::not_supported) throw;
            RAILYARD_LOG(debug, rail.name().c_str(), "no dmabuf of BAR1: %s; the usual one, then",
                         error.what());
        }
    }
    return rail.register_memory(with_dmabuf(range, DmaBufMapping::usual));
}

std::optional<std::string> GpuDmabufs::absent_because() const {
    const MutexLock lock(mutex_);
    for (const auto* each : {&usual_, &pcie_}) {
        if (*each && (*each)->dmabuf) return std::nullopt;
    }
    return usual_ ? usual_->absent_because : pcie_ ? pcie_->absent_because : "no rail asked for one";
}

}  // namespace railyard
