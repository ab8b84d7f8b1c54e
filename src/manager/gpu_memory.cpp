// Registration of GPU memory: on the rails that reach it, or behind staging buffers.
#include <algorithm>

#include "common/log.h"
#include "common/occasional.h"
#include "cuda/driver.h"
#include "cuda/pointer_info.h"
#include "manager/gpu_dmabufs.h"
#include "manager/parallel_registration.h"
#include "manager/rail_manager.h"
#include "topology/node_binding.h"

namespace railyard {
namespace {

constexpr const char* unless_meant = "; if that is as it is to be, set vram_staging=always";

/// Of memory without a dmabuf.
std::string remedy_for(const cuda::PointerInfo& memory) {
    if (memory.kind == cuda::MemoryKind::virtual_memory && !memory.gpu_direct_capable)
        return "; it was allocated without gpuDirectRDMACapable (cuMemCreate), which NICs need";
    if (memory.mappings > 1)
        return "; a newer driver may have one, else let allocations be in one piece (PyTorch: without "
               "expandable_segments)";
    return "";
}

}  // namespace

bool RailManager::takes_gpu_memory() const noexcept {
    if (!gpus_.any()) return false;
    return vram_staging_ != "never" || std::any_of(rails_.begin(), rails_.end(), [](const auto& rail) {
               return rail->reaches_gpu_memory();
           });
}

GpuPath& RailManager::require_gpu(std::uint64_t ordinal) const {
    if (!gpus_.any())
        throw Error(Status::not_supported, "GPU memory cannot be registered: " + gpus_.summary());
    for (const auto& path : gpu_paths_) {
        if (static_cast<std::uint64_t>(path->gpu().ordinal()) == ordinal) return *path;
    }
    std::string known;
    for (const auto& path : gpu_paths_) {
        if (!known.empty()) known += ", ";
        known += std::to_string(path->gpu().ordinal());
    }
    throw Error(Status::invalid_param, "there is no GPU " + std::to_string(ordinal) +
                                           " (device id of the memory); GPUs of this engine: " + known);
}

std::shared_ptr<Registration> RailManager::register_device_memory(std::uint64_t address, std::uint64_t length,
                                                                  std::uint64_t ordinal) {
    GpuPath& path = require_gpu(ordinal);
    auto region = std::make_shared<Registration>();
    region->address = address;
    region->length = length;
    region->device_id = ordinal;
    region->gpu = &path;
    if (length == 0) return region;
    const cuda::PointerInfo memory = cuda::describe_range(gpus_.driver(), address, length);
    cuda::require_device_range(memory, address, length, path.gpu().ordinal());
    path.gpu().context()->note_memory_of(memory.context);
    region->may_be_unmapped = memory.kind == cuda::MemoryKind::virtual_memory;
    // Transfers within the process need it in any case.
    open_copies(path);
    {
        const cuda::ContextGuard guard(*path.gpu().context());
        cuda::set_sync_memops(gpus_.driver(), address);
    }
    register_as_known(*region, {address, length, ordinal, MemoryType::device, memory.buffer_id},
                      [&](KnownRange& known) ABSL_NO_THREAD_SAFETY_ANALYSIS {
                          share(*region, memory, known);
                          region->token = region->shared ? region->on_host.key : region->known_as;
                          const auto obstacle = register_directly(*region, memory, region->known_as);
                          if (obstacle) stage(*region, *obstacle);
                      });
    return region;
}

void RailManager::share(Registration& region, const cuda::PointerInfo& memory, KnownRange& known) {
    if (!host_) return;
    cuda::ShareResult result = cuda::share(*region.gpu->gpu().context(), memory);
    if (result.allocation) region.on_host = register_on_host(region, known);
    if (region.on_host.key != 0) {
        region.shared = result.allocation;
        return;
    }
    RAILYARD_LOG(
        debug, "gpu", "other processes do not reach memory of GPU %d: %s", region.gpu->gpu().ordinal(),
        result.allocation ? "as many regions as there may be are registered" : result.absent_because.c_str());
}

std::optional<Obstacle> RailManager::register_directly(Registration& region, const cuda::PointerInfo& memory,
                                                       std::uint64_t wished_key) {
    using Kind = Obstacle::Kind;
    if (vram_staging_ == "always") return Obstacle{Kind::setting, "vram_staging is always"};
    Gpu& gpu = region.gpu->gpu();
    RailSet rails = region.gpu->rails();
    std::erase_if(rails, [&](std::uint16_t rail) { return !rails_[rail]->reaches_gpu_memory(); });
    if (rails.empty()) return why_none_reaches(gpu.device());
    if (gpu.visibility() == cuda::Visibility::read_back)
        return Obstacle{
            Kind::visibility,
            std::string("the GPU's driver can neither order nor flush what NICs write") + unless_meant};
    if (!gpu.device().gpu_direct_rdma && !gpu.device().dma_buf) {
        return Obstacle{Kind::device,
                        std::string("its driver lets no NIC reach it (neither GPUDirect RDMA nor dmabuf)") +
                            unless_meant};
    }
    GpuDmabufs dmabufs(gpu, memory, region.address, region.length);
    MemoryRange range{region.address, region.length, true, gpu.ordinal()};
    range.key = wished_key;
    const std::vector<Rail*> on = rails_of(rails);
    try {
        region.memory = register_on_rails(on, region.length, [&](std::size_t i) {
            return dmabufs.register_on(*on[i], region.gpu->is_below_its_switch(rails[i]), range);
        });
    } catch (const PassingError&) {
        throw;  // staged it would be for as long as it is registered
    } catch (const Error& error) {
        const std::optional<std::string> absent_because = dmabufs.absent_because();
        if (!absent_because) return Obstacle{Kind::registration, error.what()};
        return Obstacle{Kind::no_dmabuf,
                        std::string(error.what()) + "; no dmabuf: " + *absent_because + remedy_for(memory)};
    }
    region.rails = std::move(rails);
    return std::nullopt;
}

void RailManager::stage(Registration& region, const Obstacle& obstacle) {
    if (vram_staging_ == "never") {
        throw Error(Status::not_supported, "memory of GPU " + std::to_string(region.gpu->gpu().ordinal()) +
                                               " cannot be registered: " + obstacle.reason +
                                               ", and vram_staging is never; set it to auto to go through "
                                               "pinned host memory");
    }
    const MutexLock lock(staging_mutex_);
    tell(*region.gpu, obstacle);
    open_staging(region.gpu->own(), *region.gpu);
    open_staging(region.gpu->serving(), *region.gpu);
    region.staged = true;
}

/// EFAs come with FI_HMEM whenever libfabric has CUDA, whatever they can do (gotchas.md).
Obstacle RailManager::why_none_reaches(const cuda::Device& gpu) const {
    const std::string text = "provider " + provider_ + " does not reach GPU memory (FI_HMEM)";
    const bool efa = provider_ == "efa" || provider_ == "efa-direct";
    const bool some = std::any_of(rails_.begin(), rails_.end(),
                                  [](const auto& rail) { return rail->reaches_gpu_memory(); });
    if (!efa || some || !(gpu.gpu_direct_rdma || gpu.dma_buf)) return {Obstacle::Kind::rails, text};
    return {Obstacle::Kind::libfabric,
            text + ": " +
                (cuda::finds_runtime()
                     ? "libfabric is built without CUDA (that of the EFA installer has it), or finds no GPU"
                     : cuda::no_runtime) +
                "; where these NICs cannot reach it in any case (p3, g4), set vram_staging=always"};
}

void RailManager::tell(GpuPath& path, const Obstacle& obstacle) {
    if (!path.is_news(obstacle.kind)) return;
    if (obstacle.kind == Obstacle::Kind::libfabric) {
        static LastSaid last;  // the same for each GPU
        if (last.is_news(obstacle.reason))
            RAILYARD_LOG(warn, "gpu", "GPU memory goes through pinned host memory: %s",
                         obstacle.reason.c_str());
    } else if (obstacle.is_unexpected()) {
        RAILYARD_LOG(warn, "gpu",
                     "memory of GPU %d goes through pinned host memory, though there are NICs that reach GPU "
                     "memory: %s",
                     path.gpu().ordinal(), obstacle.reason.c_str());
    } else {
        RAILYARD_LOG(info, "gpu", "memory of GPU %d goes through pinned host memory: %s",
                     path.gpu().ordinal(), obstacle.reason.c_str());
    }
}

void RailManager::publish(Rail& rail) {
    const std::size_t count = gpu_rails_open_.load(std::memory_order_relaxed);
    gpu_rails_[count] = &rail;
    gpu_rails_open_.store(count + 1, std::memory_order_release);
}

std::shared_ptr<const cuda::CopyKernel> RailManager::copy_kernel(GpuPath& path) const {
    return copy_kernel_ ? path.gpu().copy_kernel() : nullptr;
}

std::vector<Rail*> RailManager::copies() const {
    std::vector<Rail*> open;
    for (const auto& path : gpu_paths_) {
        if (path->copies().is_open()) open.push_back(&path->copies());
    }
    return open;
}

bool RailManager::may_copy_for_the_ended() const noexcept {
    return std::any_of(gpu_paths_.begin(), gpu_paths_.end(),
                       [](const auto& path) { return path->copies().may_copy_for_the_ended(); });
}

void RailManager::open_copies(GpuPath& path) {
    const MutexLock lock(staging_mutex_);
    if (path.copies().is_open()) return;
    path.copies().open(path.gpu().context(), cuda_streams_, copy_kernel(path));
    publish(path.copies());
}

std::shared_ptr<Registration> RailManager::register_staging(StagingPath& path, const RailSet& rails) const {
    const cuda::PinnedMemory& pinned = path.rail().ring().memory();
    auto memory = std::make_shared<Registration>();
    memory->address = reinterpret_cast<std::uint64_t>(pinned.data());
    memory->length = pinned.size();
    memory->rails = rails;
    MemoryRange range{memory->address, memory->length};
    range.owner = path.rail().ring().shared_memory();
    memory->memory = register_on_rails(rails_of(memory->rails), range);
    return memory;
}

void RailManager::lend(StagingPath& path) {
    const MutexLock lock(staging_mutex_);
    if (!path.lent()) lend_anew(path);
}

void RailManager::open_staging(StagingPath& path, GpuPath& of) {
    if (path.memory()) return;
    const topology::NodeBinding near_the_gpu(of.gpu().node());
    path.rail().open(of.gpu().context(), StagingPath::slots, StagingPath::slot_bytes, copy_kernel(of));
    path.memory_ = register_staging(path, of.rails());
    publish(path.rail());
}

}  // namespace railyard
