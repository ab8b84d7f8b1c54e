// From the 8 bytes that a program gives us to a stream that transfers can be ordered on.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

struct CUctx_st;
struct CUstream_st;

namespace railyard {

class Gpu;
class Gpus;

struct StreamPlace {
    CUstream_st* handle = nullptr;
    CUctx_st* context =
        nullptr;  ///< that the stream was created in; the program's, kept alive by nobody here
    Gpu* gpu = nullptr;

    /// The default stream of whichever thread calls: not one stream, so no two transfers share it.
    [[nodiscard]] bool per_thread() const noexcept { return reinterpret_cast<std::uintptr_t>(handle) == 2; }
    bool operator==(const StreamPlace&) const = default;
};

/// `custom_param` is a CUstream (cudaStream_t) as it lies in memory; 0, 1 and 2 are the default streams: of
/// the calling thread's current context where that is on the right GPU, else of that GPU's primary context.
/// `memory_gpus`: ordinals of the GPUs whose memory the transfer touches; none: any GPU will do. Throws
/// Error{invalid_param} for another length, for what is no stream as far as that can be told, and for a
/// stream of another GPU; Error{not_supported} where no stream can be waited for.
[[nodiscard]] StreamPlace find_stream(Gpus& gpus, std::string_view custom_param,
                                      const std::vector<std::uint64_t>& memory_gpus);

}  // namespace railyard
