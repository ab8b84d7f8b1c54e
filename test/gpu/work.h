// What a program puts on its streams beside transfers: kernels on a real GPU; the fake driver has none, and
// host functions and copies take their place.
#pragma once

#include <cuda.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "cuda/pinned_memory.h"
#include "gpu.h"

struct CUmod_st;
struct CUfunc_st;

namespace railyard::gpu {

/// Functions that the suite calls and Railyard does not. Found by name; null where the driver has none.
struct MoreDriver {
    CUresult (*module_load_data)(CUmod_st**, const void*) = nullptr;
    CUresult (*module_unload)(CUmod_st*) = nullptr;
    CUresult (*module_get_function)(CUfunc_st**, CUmod_st*, const char*) = nullptr;
    CUresult (*launch_kernel)(CUfunc_st*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                              unsigned, CUstream, void**, void**) = nullptr;
    CUresult (*mem_alloc_managed)(CUdeviceptr*, std::size_t, unsigned) = nullptr;
    CUresult (*stream_begin_capture)(CUstream, CUstreamCaptureMode) = nullptr;
    CUresult (*stream_end_capture)(CUstream, CUgraph*) = nullptr;
    CUresult (*graph_destroy)(CUgraph) = nullptr;
    CUresult (*mem_host_register)(void*, std::size_t, unsigned) = nullptr;
    CUresult (*mem_host_unregister)(void*) = nullptr;
    void (*set_adjoining)(int) = nullptr;  ///< of test/fakecuda alone (control.h there)
    bool fake = false;                     ///< the driver is test/fakecuda
};
[[nodiscard]] const MoreDriver& more_driver();

/// One thread. Throws bench::Failure where the driver refuses.
class Work {
  public:
    explicit Work(bench::Gpu& gpu);
    ~Work();
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

    /// True: what is put on streams are kernels. Always so on a real GPU.
    [[nodiscard]] bool has_kernels() const noexcept { return module_ != nullptr; }

    /// The stream gets no further for so long.
    void spin(const bench::GpuStream& stream, std::chrono::microseconds time);
    /// Between places in GPU memory.
    void copy(const bench::GpuStream& stream, std::uint64_t to, std::uint64_t from, std::uint64_t bytes);
    /// Waits, and throws when the stream's work failed or has not ended within half a minute.
    void finish(const bench::GpuStream& stream);

  private:
    [[nodiscard]] CUfunc_st* find(const char* name) const;
    void launch(CUfunc_st* kernel, unsigned blocks, unsigned threads, void** arguments, CUstream stream);

    bench::Gpu& gpu_;
    CUmod_st* module_ = nullptr;
    CUfunc_st *spin_ = nullptr, *copy_ = nullptr;
};

/// A stream of which nothing is left when it goes, whatever became of the case: its work may use memory of
/// the case.
class OwnStream : public bench::GpuStream {
  public:
    OwnStream(Work& work, bench::Gpu& gpu) : GpuStream(gpu), work_(work) {}
    ~OwnStream();
    OwnStream(OwnStream&&) = delete;
    OwnStream& operator=(OwnStream&&) = delete;

  private:
    Work& work_;
};

/// Words in pinned memory that the CPU and streams write and wait for.
class Words {
  public:
    explicit Words(bench::Gpu& gpu, unsigned count);
    [[nodiscard]] std::uint64_t get(unsigned index) const noexcept;
    void set(unsigned index, std::uint64_t value) noexcept;
    /// When the stream gets there.
    void set_later(const bench::GpuStream& stream, unsigned index, std::uint64_t value);
    /// The stream gets no further before the word is at least `value`.
    void hold(const bench::GpuStream& stream, unsigned index, std::uint64_t value);

  private:
    bench::Gpu& gpu_;
    cuda::PinnedMemory memory_;
};

/// Holds a stream until it is opened; at the latest when it goes, which waits for the stream.
class Gate {
  public:
    explicit Gate(Work& work, bench::Gpu& gpu) : work_(work), words_(gpu, 1) {}
    ~Gate();
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;
    /// Until the next open(). The stream must outlive the gate.
    void hold(const bench::GpuStream& stream);
    void open() noexcept { words_.set(0, ++opened_); }

  private:
    Work& work_;
    Words words_;
    std::uint64_t opened_ = 0;
    const bench::GpuStream* held_ = nullptr;
};

/// Host memory of the program, pinned for as long as this lives, so that copies on streams do not go through
/// a copy that the driver takes beforehand.
class Pinned {
  public:
    Pinned(bench::Gpu& gpu, void* memory, std::size_t length);
    ~Pinned();
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;

  private:
    bench::Gpu& gpu_;
    void* memory_;
};

}  // namespace railyard::gpu
