#include "manager/gpus.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "common/log.h"
#include "cuda/driver.h"

namespace railyard {
namespace {

constexpr std::string_view no_gpus = "none";

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
    throw Error(Status::invalid_param, "parameter gpu_devices: bad value \"" + text + "\": " + why +
                                           "; allowed: CUDA ordinals separated by commas, or none");
}

std::set<int> parse_ordinals(const std::string& text) {
    std::set<int> ordinals;
    std::string_view rest = text;
    while (!rest.empty()) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        const std::string_view word = rest.substr(0, comma);
        int ordinal = -1;
        const auto parsed = std::from_chars(word.data(), word.data() + word.size(), ordinal);
        if (parsed.ec != std::errc{} || parsed.ptr != word.data() + word.size() || ordinal < 0)
            refuse(text, "\"" + std::string(word) + "\" is no ordinal");
        ordinals.insert(ordinal);
        if (comma + 1 == rest.size()) refuse(text, "it ends with a comma");
        rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return ordinals;
}

}  // namespace

cuda::ContextPtr Gpu::context() {
    const MutexLock lock(mutex_);
    if (!context_) context_ = std::make_shared<cuda::PrimaryContext>(driver_, device_.ordinal);
    if (!flusher_) flusher_ = std::make_unique<cuda::WriteFlusher>(context_, visibility_);
    return context_;
}

std::shared_ptr<const cuda::CopyKernel> Gpu::copy_kernel() {
    const cuda::ContextPtr made = context();
    const MutexLock lock(mutex_);
    if (!std::exchange(looked_for_kernel_, true)) copy_kernel_ = cuda::CopyKernel::load(made);
    return copy_kernel_;
}

void Gpu::note_window(GpuWindow window) noexcept {
    GpuWindow unknown = GpuWindow::unknown;
    if (!window_.compare_exchange_strong(unknown, window, std::memory_order_relaxed)) return;
    RAILYARD_LOG(debug, "gpu", "NICs below the switch of GPU %d are given %s", ordinal(),
                 window == GpuWindow::two ? "BAR1, which the driver names" : "the one window that it has");
}

Status Gpu::flush() noexcept {
    const MutexLock lock(mutex_);
    return flusher_ ? flusher_->flush() : Status::backend;
}

Gpus::Gpus(const Params& params) {
    if (params.gpu_devices == no_gpus) {
        summary_ = "no GPU: gpu_devices is none";
        return;
    }
    const std::set<int> wanted = parse_ordinals(params.gpu_devices);
    cuda::DriverLookup found = cuda::find_driver();
    std::vector<cuda::Device> devices;
    if (found.driver) {
        driver_ = std::make_unique<const cuda::Driver>(*found.driver);
        devices = cuda::list_devices(*driver_);
    }
    for (const int ordinal : wanted) {
        if (std::none_of(devices.begin(), devices.end(),
                         [&](const cuda::Device& device) { return device.ordinal == ordinal; }))
            refuse(params.gpu_devices, "this process has no GPU " + std::to_string(ordinal) +
                                           (found.driver ? " (" + std::to_string(devices.size()) + " in all)"
                                                         : " (" + found.absent_because + ")"));
    }
    for (cuda::Device& device : devices) {
        if (!wanted.empty() && !wanted.contains(device.ordinal)) continue;
        gpus_.push_back(std::make_unique<Gpu>(*driver_, std::move(device)));
    }
    summary_ = any() ? std::to_string(gpus_.size()) + " GPUs" : "no GPU: " + found.absent_because;
}

Gpus::~Gpus() = default;

std::vector<std::string> Gpus::places() const {
    std::vector<std::string> places;
    for (const auto& gpu : gpus_)
        places.push_back(gpu->device().pci);
    return places;
}

bool Gpus::present(const Params& params) {
    return params.gpu_devices != no_gpus && cuda::find_driver().driver.has_value();
}

Gpu* Gpus::find(std::uint64_t ordinal) const noexcept {
    for (const auto& gpu : gpus_) {
        if (static_cast<std::uint64_t>(gpu->ordinal()) == ordinal) return gpu.get();
    }
    return nullptr;
}

}  // namespace railyard
