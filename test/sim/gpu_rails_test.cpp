// What the rails of an engine make of GPU memory, over a simulated p5.48xlarge: which of them know it, and
// what is said where none does.
#include "cuda/driver.h"
#include "few_files.h"
#include "log_lines.h"
#include "simulated_machine.h"
#include "two_rails.h"
#include "unit/cuda/on_fake_driver.h"

namespace railyard::test {
namespace gpu_rails_test {

using cuda::error_of;

class GpuMemoryOfAnEngine : public cuda::OnFakeDriver, public testing::WithParamInterface<const char*> {
  protected:
    [[nodiscard]] std::string family() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Fabrics, GpuMemoryOfAnEngine, testing::Values("efa-direct", "efa"),
                         [](const auto& value) {
                             return std::string(value.param) == "efa" ? "efa" : "efa_direct";
                         });

/// It would go through staging buffers for as long as it is registered.
TEST_P(GpuMemoryOfAnEngine, IsRefusedAndNotStagedWithoutDescriptors) {
    const BareRails engine({family(), 4, false});
    const cuda::DeviceBuffer first(context(), 1 << 20), buffer(context(), 1 << 20);
    const auto before = engine.rails->register_device_memory(first.address(), 1 << 20, 0);
    EXPECT_FALSE(before->staged);
    {
        const Disturbance by_dmabuf_alone("gpu_address=off");
        const FewFiles few(0);
        const auto [status, text] = error_of(
            [&] { static_cast<void>(engine.rails->register_device_memory(buffer.address(), 1 << 20, 0)); });
        EXPECT_EQ(status, Status::backend);
        EXPECT_CONTAINS(text, "ulimit -n");
    }
    const auto after = engine.rails->register_device_memory(buffer.address(), 1 << 20, 0);
    EXPECT_FALSE(after->staged);
    engine.rails->deregister_memory(*before);
    engine.rails->deregister_memory(*after);
}

TEST_P(GpuMemoryOfAnEngine, AnEngineAsksForItWhereThereAreGpusAndStagingIsNotForced) {
    auto reaching = [&](const ParamMap& extra) {
        const BareRails some({family(), 4, false}, extra);
        std::size_t count = 0;
        for (std::size_t i = 0; i < some.rails->size(); ++i)
            count += some.rails->rail(i).reaches_gpu_memory();
        return count;
    };
    EXPECT_EQ(reaching({}), 4u);
    EXPECT_EQ(reaching({{"vram_staging", "never"}}), 4u);
    EXPECT_EQ(reaching({{"vram_staging", "always"}}), 0u);
}

/// A libfabric without CUDA, or that has not found its run time.
TEST_P(GpuMemoryOfAnEngine, WhereNoNicComesWithItThatIsSaidOnce) {
    const Disturbance without("gpu_memory=off");
    const BareRails some({family(), 4, false});
    const LogLines lines;
    for (int ordinal = 0; ordinal < 2; ++ordinal) {
        const cuda::DeviceBuffer buffer(context(ordinal), 4096);
        const auto region =
            some.rails->register_device_memory(buffer.address(), 4096, static_cast<std::uint64_t>(ordinal));
        EXPECT_TRUE(region->staged);
        some.rails->deregister_memory(*region);
    }
    EXPECT_EQ(LogLines::count("GPU memory goes through pinned host memory: provider " + family()), 1);
    EXPECT_EQ(LogLines::count(cuda::finds_runtime() ? "without CUDA" : "link it to libcudart.so.12"), 1);
}

/// Which NICs know a megabyte of each GPU of an engine with these settings: "0=rdmap79s0 1=rdmap96s0 ...".
std::string nics_of_gpus(const BareRails& engine, const std::vector<cuda::ContextPtr>& gpus) {
    std::string text;
    for (const cuda::ContextPtr& gpu : gpus) {
        const cuda::DeviceBuffer buffer(gpu, 1 << 20);
        const auto ordinal = static_cast<std::uint64_t>(gpu->ordinal());
        const auto region = engine.rails->register_device_memory(buffer.address(), 1 << 20, ordinal);
        text += (text.empty() ? "" : " ") + std::to_string(ordinal) + "=";
        for (const std::uint16_t rail : region->rails) {
            const std::string& name = engine.rails->rail(rail).name();
            text += (text.back() == '=' ? "" : ",") + name.substr(name.find(':') + 1);
        }
        engine.rails->deregister_memory(*region);
    }
    return text;
}

TEST_P(GpuMemoryOfAnEngine, WithARailForEachGpuEachHasTheOneBelowItsSwitch) {
    std::vector<cuda::ContextPtr> gpus;
    for (int ordinal = 0; ordinal < 8; ++ordinal)
        gpus.push_back(context(ordinal));
    EXPECT_EQ(nics_of_gpus(BareRails({family(), 8, false}), gpus),
              "0=rdmap79s0 1=rdmap96s0 2=rdmap113s0 3=rdmap130s0 4=rdmap147s0 5=rdmap164s0 6=rdmap181s0 "
              "7=rdmap198s0");
}

TEST_P(GpuMemoryOfAnEngine, TheRailsOfAnEngineWithOneGpuAreThatGpus) {
    EXPECT_EQ(nics_of_gpus(BareRails({family(), 4, false}, {{"gpu_devices", "7"}}), {context(7)}),
              "7=rdmap198s0,rdmap199s0,rdmap200s0,rdmap201s0");
}

}  // namespace gpu_rails_test
}  // namespace railyard::test
