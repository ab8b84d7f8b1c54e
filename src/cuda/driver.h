// The CUDA driver as a table of functions. The only header of this layer that includes cuda.h; the others
// take a `const Driver&` and plain values.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>
#include <string>

namespace railyard::cuda {

/// A value; every engine has its own, and all threads may call through it. The library it leads to stays
/// loaded until the process ends, as the driver's own threads do.
struct Driver {
#define RAILYARD_CUDA_FUNCTION(member, name, text, version, need) decltype(&::name) member = nullptr;
#include "cuda/functions.def"
#undef RAILYARD_CUDA_FUNCTION
    int version = 0;  ///< 1000 * major + 10 * minor of the CUDA version it knows
};

struct DriverLookup {
    std::optional<Driver> driver;
    std::string absent_because;  ///< where there is none
};

/// Loads libcuda.so.1, looks its functions up and initialises it. None where there is no driver, none that is
/// new enough, or no device: engines then move host memory only. The first time in a process this is said in
/// the log (info). Blocks for as long as the driver needs, which is up to a second on a machine with many
/// GPUs. Any thread; repeatable.
[[nodiscard]] DriverLookup find_driver();

/// Libraries that are built to load CUDA's run time find it: as libcudart.so, without a version, which images
/// and wheels that are to run programs alone do not have. Loads it, if it is there. Any thread.
[[nodiscard]] bool finds_runtime() noexcept;
/// For people, where they do not.
inline constexpr const char* no_runtime =
    "libfabric loads CUDA's run time as libcudart.so, and there is none of that name: link it to "
    "libcudart.so.12, or install the run time's development package (cuda-cudart-dev)";

/// What this was compiled with, for people: "CUDA 13.0 headers", "own declarations", or "without CUDA".
[[nodiscard]] std::string built_with();

/// "CUDA_ERROR_OUT_OF_MEMORY", or "unknown error": for log lines where nothing may be thrown.
[[nodiscard]] const char* error_name(const Driver& driver, unsigned result) noexcept;

/// A result with which a context comes to its end: calls in it fail from then on, and the device does nothing
/// more of what it was told there (CUresult in the driver's reference). Any other error says nothing about
/// what was started before.
[[nodiscard]] bool ends_context(unsigned result) noexcept;
/// A driver that answers with other errors when it is asked for something that was started is asked again for
/// so long.
inline constexpr std::uint64_t unanswered_limit_ns = 1'000'000'000;

/// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
[[nodiscard]] std::string describe(const Driver& driver, CUresult result);

/// Throws Error{backend} "call: CUDA_ERROR_..." unless `result` is CUDA_SUCCESS.
void check(const Driver& driver, CUresult result, const char* call);

}  // namespace railyard::cuda
