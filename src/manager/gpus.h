// The GPUs of one engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "common/params.h"
#include "cuda/context_guard.h"
#include "cuda/copy_kernel.h"
#include "cuda/device.h"
#include "cuda/visibility.h"
#include "topology/machine.h"

namespace railyard {

namespace cuda {
struct Driver;
}

/// Through how many windows NICs reach a GPU's memory, as far as is known (cuda::DmaBufMapping).
enum class GpuWindow : std::uint8_t { unknown, one, two };

/// One GPU whose memory may be registered. Any thread.
class Gpu {
  public:
    Gpu(const cuda::Driver& driver, cuda::Device device)
        : device_(std::move(device)), driver_(driver), visibility_(cuda::visibility_of(device_)) {}

    [[nodiscard]] int ordinal() const noexcept { return device_.ordinal; }
    [[nodiscard]] const cuda::Device& device() const noexcept { return device_; }
    /// What a NIC's write lacks until the GPU sees it.
    [[nodiscard]] cuda::Visibility visibility() const noexcept { return visibility_; }
    /// Its NUMA node, as the operating system numbers them; topology::unknown_numa where nobody said.
    [[nodiscard]] int node() const noexcept { return node_; }
    /// Before anything else is done with it.
    void set_node(int node) noexcept { node_ = node; }
    [[nodiscard]] GpuWindow window() const noexcept { return window_.load(std::memory_order_relaxed); }
    /// The first word counts: what is said of later memory is of that memory alone.
    void note_window(GpuWindow window) noexcept;
    /// Its primary context, retained on first use and from then on as long as anybody has it. Throws Error.
    [[nodiscard]] cuda::ContextPtr context();
    /// In that context, loaded on first use; nullptr: the driver does not take it. Throws Error.
    [[nodiscard]] std::shared_ptr<const cuda::CopyKernel> copy_kernel();
    /// Makes what NICs wrote so far visible to work that starts later. Blocks for some microseconds. Only
    /// after context(). Status::backend where the driver refuses, which is logged.
    [[nodiscard]] Status flush() noexcept;

  private:
    const cuda::Device device_;
    const cuda::Driver& driver_;
    const cuda::Visibility visibility_;
    int node_ = topology::unknown_numa;
    std::atomic<GpuWindow> window_{GpuWindow::unknown};  // pairs with nothing: what the driver said
    Mutex mutex_;
    cuda::ContextPtr context_ ABSL_GUARDED_BY(mutex_);
    bool looked_for_kernel_ ABSL_GUARDED_BY(mutex_) = false;
    std::shared_ptr<const cuda::CopyKernel> copy_kernel_ ABSL_GUARDED_BY(mutex_);
    std::unique_ptr<cuda::WriteFlusher> flusher_ ABSL_GUARDED_BY(mutex_);
};

class Gpus {
  public:
    /// Looks for a driver, unless `gpu_devices` is "none"; without one, or without a GPU that `gpu_devices`
    /// allows, there are none. Throws Error{invalid_param} for a list that names what is no GPU of this
    /// process.
    explicit Gpus(const Params& params);
    ~Gpus();
    Gpus(const Gpus&) = delete;
    Gpus& operator=(const Gpus&) = delete;

    /// Whether this process has a driver with a GPU. Loads and initialises it, unless `gpu_devices` is
    /// "none".
    [[nodiscard]] static bool present(const Params& params);
    [[nodiscard]] bool any() const noexcept { return !gpus_.empty(); }
    /// By ordinal; nullptr for one that is not there or not allowed.
    [[nodiscard]] Gpu* find(std::uint64_t ordinal) const noexcept;
    [[nodiscard]] const std::vector<std::unique_ptr<Gpu>>& all() const noexcept { return gpus_; }
    /// PCI addresses, as the driver prints them, in the order of all().
    [[nodiscard]] std::vector<std::string> places() const;
    /// Only where any().
    [[nodiscard]] const cuda::Driver& driver() const noexcept { return *driver_; }
    /// Why there are none, or which there are.
    [[nodiscard]] const std::string& summary() const noexcept { return summary_; }

  private:
    std::unique_ptr<const cuda::Driver> driver_;
    std::vector<std::unique_ptr<Gpu>> gpus_;  // go before the driver
    std::string summary_;
};

}  // namespace railyard
