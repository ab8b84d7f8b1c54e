#include "suite.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>

#include "cuda/device.h"
#include "cuda/driver.h"
#include "failure.h"
#include "report.h"
#include "runner.h"
#include "target_process.h"
#include "watchdog.h"

namespace railyard::gpu {

namespace {

struct Shared {
    bench::Gpu gpu{setup().gpu};
    Work work{gpu};
};

std::unique_ptr<Shared>& shared() {
    static std::unique_ptr<Shared> made;
    return made;
}

Shared& open_shared() {
    if (!shared()) shared() = std::make_unique<Shared>();
    return *shared();
}

std::vector<Figure>& figures() {
    static std::vector<Figure> all;
    return all;
}

bool holds(const Figure& figure) {
    return figure.at_least ? figure.value >= figure.goal : figure.value <= figure.goal;
}

/// A name of our own for a file that is read back at once.
std::string temporary_file() {
    const char* folder = std::getenv("TMPDIR");
    std::string name = std::string(folder != nullptr ? folder : "/tmp") + "/railyard-gpu-XXXXXX";
    const int descriptor = mkstemp(name.data());
    if (descriptor < 0) throw bench::Failure("cannot create " + name + ": " + std::strerror(errno));
    close(descriptor);
    return name;
}

}  // namespace

bench::Gpu& gpu() {
    return open_shared().gpu;
}

Work& work() {
    return open_shared().work;
}

void close_gpu() noexcept {
    shared().reset();
}

CUcontext OnGpu::current() {
    CUcontext context = nullptr;
    EXPECT_EQ(gpu().driver().ctx_get_current(&context), CUDA_SUCCESS);
    return context;
}

host::AgentConfig agent_config(const std::string& name) {
    host::AgentConfig config;
    config.name = name;
    config.params["provider"] = setup().fabrics.front();
    if (setup().fabrics.front() == "tcp") config.params["devices"] = "lo";
    return config;
}

Buffer::Buffer(bool vram, std::size_t length) : length_(length) {
    if (vram)
        device_ = std::make_unique<bench::GpuMemory>(gpu(), length);
    else
        host_.resize(length);
}

host::Range Buffer::range(std::size_t offset, std::size_t length) const {
    if (device_) return {device_->base() + offset, length, std::uint64_t{setup().gpu} + 1};
    return {reinterpret_cast<std::uint64_t>(host_.data()) + offset, length, 0};
}

void Buffer::put(const std::vector<std::byte>& bytes) {
    if (device_)
        gpu().copy(device_->base(), reinterpret_cast<std::uint64_t>(bytes.data()), bytes.size());
    else
        std::memcpy(host_.data(), bytes.data(), bytes.size());
}

std::vector<std::byte> Buffer::bytes() const {
    if (!device_) return host_;
    std::vector<std::byte> read(length_);
    gpu().copy(reinterpret_cast<std::uint64_t>(read.data()), device_->base(), length_);
    return read;
}

std::vector<std::byte> contents(std::uint64_t seed, std::size_t length) {
    std::vector<std::byte> bytes(length);
    std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (std::byte& byte : bytes) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        byte = static_cast<std::byte>(state >> 56);
    }
    return bytes;
}

nlohmann::json run_bench(const std::vector<std::string>& words) {
    bench::Options options = bench_options(words);
    options.json = temporary_file();
    nlohmann::json document;
    try {
        TargetProcess target(words);
        const std::vector<bench::Point> points = bench::make_points(options);
        {
            bench::Report report(options, points.size());
            bench::run_initiator(options, points, target.take_control(), report);
        }
        bench::disarm_watchdog();
        std::ifstream(options.json) >> document;
    } catch (...) {
        unlink(options.json.c_str());
        throw;
    }
    unlink(options.json.c_str());
    return document;
}

void report(const Figure& figure) {
    std::printf("figure: %-66s %10.4g %s", figure.name.c_str(), figure.value, figure.unit.c_str());
    if (figure.goal > 0) {
        std::printf("  (goal %s %.3g: %s)", figure.at_least ? ">=" : "<=", figure.goal,
                    holds(figure) ? "holds" : "MISSED");
    }
    std::printf("\n");
    std::fflush(stdout);
    figures().push_back(figure);
}

nlohmann::json results(const nlohmann::json& before) {
    const auto& driver = gpu().driver();
    const cuda::Device device = cuda::list_devices(driver).at(setup().gpu);
    const testing::UnitTest& run = *testing::UnitTest::GetInstance();
    nlohmann::json document = {
        {"version", 1},
        {"device", {{"name", device.name}, {"pci", device.pci}, {"memory_bytes", device.memory}}},
        {"driver", driver.version},
        {"fake", more_driver().fake},
        {"kernels", work().has_kernels()},
        {"passed", run.successful_test_count() + before.value("passed", 0)},
        {"failed", run.failed_test_count() + before.value("failed", 0)},
        {"skipped", run.skipped_test_count() + before.value("skipped", 0)},
        {"ran", before.value("ran", nlohmann::json::array())},
        {"figures", before.value("figures", nlohmann::json::array())}};
    document["ran"].push_back(GTEST_FLAG_GET(filter));
    for (const Figure& figure : figures()) {
        nlohmann::json row = {{"name", figure.name}, {"value", figure.value}, {"unit", figure.unit}};
        if (figure.goal > 0) {
            row["goal"] = figure.goal;
            row["goal_is"] = figure.at_least ? "at least" : "at most";
            row["holds"] = holds(figure);
        }
        document["figures"].push_back(row);
    }
    return document;
}

}  // namespace railyard::gpu
