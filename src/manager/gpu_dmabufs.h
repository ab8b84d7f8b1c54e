// One range of GPU memory on its way to the rails: the dmabufs of it that their NICs need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <absl/base/thread_annotations.h>

#include "common/memory_range.h"
#include "common/mutex.h"
#include "cuda/dmabuf.h"
#include "cuda/pointer_info.h"
#include "manager/gpus.h"
#include "rail/rail.h"

namespace railyard {

/// The topology decides which window a rail is given. A NIC below a PCIe switch of the GPU's gets BAR1
/// (cuda::DmaBufMapping::pcie), every other one what the driver chooses: of two that have a host bridge in
/// common only, what one writes to the other goes through the CPU, as libfabric's tests have it. Machines
/// whose GPUs have one window need no other rule: their drivers refuse the flag, which is remembered
/// (Gpu::window), or do not mind it. Descriptors are made when a rail first needs them and closed with this,
/// as NICs keep what they have mapped.
class GpuDmabufs {
  public:
    /// `gpu` must outlive this, its context must have been retained.
    GpuDmabufs(Gpu& gpu, const cuda::PointerInfo& memory, std::uint64_t address, std::uint64_t length);

    /// By the descriptor of its window, or by its address where there is none. A NIC that takes no descriptor
    /// of BAR1 is given the usual one; one that does not take that either goes by the address. `range` is
    /// without a descriptor. Any thread. Throws as Rail::register_memory.
    RegisteredMemory register_on(Rail& rail, bool below_its_switch, const MemoryRange& range);

    /// Why no rail was given a descriptor; nothing where one was.
    [[nodiscard]] std::optional<std::string> absent_because() const;

  private:
    MemoryRange with_dmabuf(MemoryRange range, cuda::DmaBufMapping wanted);
    const cuda::DmaBufExport& made(cuda::DmaBufMapping wanted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

    Gpu& gpu_;
    const cuda::ContextPtr context_;
    const cuda::PointerInfo& memory_;
    const std::uint64_t address_, length_;
    mutable Mutex mutex_;
    std::optional<cuda::DmaBufExport> usual_ ABSL_GUARDED_BY(mutex_), pcie_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace railyard
