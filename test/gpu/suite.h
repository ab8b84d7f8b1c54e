// What every case has: the GPU, something to put on streams, and a look at whether the thread's context
// stayed.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "common/status.h"
#include "gpu.h"
#include "host/agent.h"
#include "setup.h"
#include "work.h"

namespace railyard {

/// How GoogleTest prints it.
inline void PrintTo(Status status, std::ostream* out) {
    *out << to_string(status);
}

}  // namespace railyard

namespace railyard::gpu {

/// The GPU that the suite was given, and its kernels; made before the first case. Throws bench::Failure.
[[nodiscard]] bench::Gpu& gpu();
[[nodiscard]] Work& work();
/// Given back after the last case.
void close_gpu() noexcept;

class OnGpu : public testing::Test {
  protected:
    void SetUp() override { before_ = current(); }
    void TearDown() override { EXPECT_EQ(current(), before_) << "the thread's current context has changed"; }

  private:
    static CUcontext current();
    CUcontext before_ = nullptr;
};

/// An agent of the suite's first fabric, with a progress thread.
[[nodiscard]] host::AgentConfig agent_config(const std::string& name);

/// Zeroed memory of the GPU or of the host.
class Buffer {
  public:
    Buffer(bool vram, std::size_t length);
    [[nodiscard]] host::Range range() const { return range(0, length_); }
    [[nodiscard]] host::Range range(std::size_t offset, std::size_t length) const;
    void put(const std::vector<std::byte>& bytes);
    [[nodiscard]] std::vector<std::byte> bytes() const;

  private:
    std::size_t length_;
    std::vector<std::byte> host_;  ///< empty for GPU memory
    std::unique_ptr<bench::GpuMemory> device_;
};

/// Contents that differ from place to place and from seed to seed.
[[nodiscard]] std::vector<std::byte> contents(std::uint64_t seed, std::size_t length);

/// The status of the Error that `action` throws; ok when it throws none. The message goes to `text`.
template <class Action>
Status refusal_of(Action&& action, std::string* text = nullptr) {
    try {
        action();
    } catch (const Error& error) {
        if (text != nullptr) *text = error.what();
        return error.status();
    }
    return Status::ok;
}

/// Two processes under railyard-bench, which verifies every byte; its JSON document.
[[nodiscard]] nlohmann::json run_bench(const std::vector<std::string>& words);

/// Keeps a figure for the end, and prints it.
struct Figure {
    std::string name;
    double value = 0;
    std::string unit;
    double goal = 0;        ///< 0: none
    bool at_least = false;  ///< else at most
};
void report(const Figure& figure);
/// Device, counts of cases and figures; those of `before`, another run's document or null, are added.
[[nodiscard]] nlohmann::json results(const nlohmann::json& before);

}  // namespace railyard::gpu
