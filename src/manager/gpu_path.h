// How memory of one GPU travels where no rail does it: staging buffers, and copies within the process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "manager/gpu_imports.h"
#include "manager/gpus.h"
#include "manager/registration.h"
#include "rail/device_copy_rail.h"
#include "rail/staging_rail.h"

namespace railyard {

/// Staging memory and the rail that moves it. What we do for ourselves and what we do for peers have one
/// each, because a transfer between two staged GPUs holds a buffer on its own side while it waits for one of
/// the peer's: with one pool, two engines could wait for each other for ever.
class StagingPath {
  public:
    static constexpr unsigned slots = 16;
    /// So long that what a copy engine pauses between two is little of it (docs/benchmarks.md).
    static constexpr std::size_t slot_bytes = std::size_t{2} << 20;

    explicit StagingPath(std::string name) : rail_(std::move(name)) {}
    [[nodiscard]] StagingRail& rail() noexcept { return rail_; }
    /// The pinned memory as the rails know it; nullptr before it is opened.
    [[nodiscard]] const std::shared_ptr<Registration>& memory() const noexcept { return memory_; }
    /// The same once more, for nothing but the keys that peers are told which move bytes to it and from it:
    /// these can be withdrawn. nullptr: nobody has been told of any. Any thread.
    [[nodiscard]] std::shared_ptr<Registration> lent() const {
        const MutexLock lock(lent_mutex_);
        return lent_;
    }
    /// From now on they are told of these.
    void lend(std::shared_ptr<Registration> memory) {
        const MutexLock lock(lent_mutex_);
        lent_.swap(memory);
    }

  private:
    friend class RailManager;
    StagingRail rail_;
    std::shared_ptr<Registration> memory_;  // written once, with the manager's mutex
    mutable Mutex lent_mutex_;
    std::shared_ptr<Registration> lent_ ABSL_GUARDED_BY(lent_mutex_);
};

/// Why the rails of a GPU do not carry a region of its memory.
struct Obstacle {
    enum class Kind : std::uint8_t {
        setting,
        rails,         ///< none of them reaches GPU memory
        libfabric,     ///< they may, and it offers none so
        visibility,    ///< they would, from here on
        device,        ///< neither GPUDirect RDMA nor dmabuf
        no_dmabuf,     ///< a rail refused the region, of which there is no dmabuf
        registration,  ///< a rail refused it
    };
    /// Somebody has paid for NICs that could do it.
    [[nodiscard]] bool is_unexpected() const noexcept { return kind > Kind::rails; }
    Kind kind;
    std::string reason;
};

class GpuPath {
  public:
    static constexpr std::size_t rail_count = 3;  ///< own staging, serving, copies

    /// `rails`: near the GPU, whether they reach its memory or not. `below_its_switch`: those among them
    /// whose NIC has a PCIe switch in common with it.
    GpuPath(Gpu& gpu, RailSet rails, RailSet below_its_switch);

    [[nodiscard]] Gpu& gpu() const noexcept { return gpu_; }
    [[nodiscard]] const RailSet& rails() const noexcept { return rails_; }
    [[nodiscard]] bool is_below_its_switch(std::uint16_t rail) const noexcept {
        return position(below_its_switch_, rail) < below_its_switch_.size();
    }
    [[nodiscard]] StagingPath& own() noexcept { return own_; }
    [[nodiscard]] StagingPath& serving() noexcept { return serving_; }
    /// Copies between two places of this process, or what it has mapped of others, one of which is this GPU.
    [[nodiscard]] DeviceCopyRail& copies() noexcept { return copies_; }
    /// What it has mapped.
    [[nodiscard]] GpuImports& imports() noexcept { return imports_; }

    /// True once for each kind. With the manager's mutex.
    [[nodiscard]] bool is_news(Obstacle::Kind kind) noexcept {
        const unsigned bit = 1U << static_cast<unsigned>(kind);
        return !(std::exchange(said_, said_ | bit) & bit);
    }

  private:
    Gpu& gpu_;
    const RailSet rails_, below_its_switch_;
    StagingPath own_, serving_;
    unsigned said_ = 0;   // a bit for each kind of obstacle
    GpuImports imports_;  // goes after the copies
    DeviceCopyRail copies_;
};

}  // namespace railyard
