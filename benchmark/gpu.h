// One GPU through the CUDA driver: memory, copies, streams. The only part of the benchmark that knows CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cuda/context_guard.h"

struct CUstream_st;

namespace railyard::cuda {
struct Driver;
}

namespace railyard::bench {

/// A device's primary context and a stream for copies. The caller's current context never changes. What was
/// made on it has to go before it. One thread.
class Gpu {
  public:
    /// Throws Failure that says what is missing: the driver, or a GPU of that ordinal.
    explicit Gpu(unsigned ordinal);
    ~Gpu();
    Gpu(const Gpu&) = delete;
    Gpu& operator=(const Gpu&) = delete;

    /// Between any two addresses, of this GPU or of host memory; returns when the bytes are there. Throws
    /// Failure.
    void copy(std::uint64_t to, std::uint64_t from, std::size_t length);

    [[nodiscard]] const cuda::Driver& driver() const noexcept { return *driver_; }
    [[nodiscard]] const cuda::ContextPtr& context() const noexcept { return context_; }
    /// Throws Failure unless the driver's `result` is 0.
    void require(unsigned result, const char* call) const;

  private:
    std::unique_ptr<const cuda::Driver> driver_;
    cuda::ContextPtr context_;
    CUstream_st* copies_ = nullptr;
};

/// Zeroed memory of a GPU.
class GpuMemory {
  public:
    /// Throws Failure.
    GpuMemory(Gpu& gpu, std::size_t length);
    ~GpuMemory();
    GpuMemory(const GpuMemory&) = delete;
    GpuMemory& operator=(const GpuMemory&) = delete;

    [[nodiscard]] std::uint64_t base() const noexcept { return base_; }

  private:
    Gpu& gpu_;
    std::uint64_t base_ = 0;
};

/// A stream that is ordered with no other.
class GpuStream {
  public:
    /// Throws Failure.
    explicit GpuStream(Gpu& gpu);
    ~GpuStream();
    GpuStream(GpuStream&& other) noexcept;
    GpuStream& operator=(GpuStream&&) = delete;

    /// Its handle as the eight bytes that a transfer is prepared with to be attached to it.
    [[nodiscard]] std::string custom_param() const;
    [[nodiscard]] CUstream_st* handle() const noexcept { return stream_; }

  private:
    Gpu* gpu_;
    CUstream_st* stream_ = nullptr;
};

}  // namespace railyard::bench
