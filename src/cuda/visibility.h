// What has to happen between a NIC's write to GPU memory and the GPU's read of it: a completion alone does
// not say that the GPU sees the data.
#pragma once

#include <memory>

#include "common/status.h"
#include "cuda/device.h"
#include "cuda/pinned_memory.h"

struct CUstream_st;

namespace railyard::cuda {

class PrimaryContext;

enum class Visibility : std::uint8_t {
    at_once,       ///< work started after the completion sees the data
    host_flush,    ///< flush_writes() after the completion, before anybody is told
    stream_flush,  ///< only a stream's wait with CU_STREAM_WAIT_VALUE_FLUSH makes it visible
    read_back,     ///< neither: read a byte back from the memory over every rail that wrote
};

/// For data that work on the device itself will read. Pure.
[[nodiscard]] Visibility visibility_of(const Device& device) noexcept;
[[nodiscard]] const char* to_string(Visibility visibility) noexcept;

/// Makes what NICs wrote to a device visible to it, in the way that the device needs. One thread at a time.
class WriteFlusher {
  public:
    /// Throws Error{backend}.
    WriteFlusher(std::shared_ptr<PrimaryContext> context, Visibility visibility);
    ~WriteFlusher();
    WriteFlusher(const WriteFlusher&) = delete;
    WriteFlusher& operator=(const WriteFlusher&) = delete;

    /// Blocks for some microseconds; allocates nothing. Status::backend: the driver refused, which is logged,
    /// or nothing helps (Visibility::read_back).
    [[nodiscard]] Status flush() noexcept;

  private:
    [[nodiscard]] Status flush_by_stream() noexcept;

    std::shared_ptr<PrimaryContext> context_;
    Visibility visibility_;
    CUstream_st* stream_ = nullptr;       // of stream_flush only
    std::unique_ptr<PinnedMemory> word_;  // what the stream waits for, and finds at once
};

/// Makes what NICs wrote to the context's device before this call visible to it (Visibility::host_flush).
/// Blocks for a few microseconds; any thread; allocates nothing. Status::backend: the driver refused, which
/// is logged.
[[nodiscard]] Status flush_writes(const PrimaryContext& context) noexcept;

}  // namespace railyard::cuda
