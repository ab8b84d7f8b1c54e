// Streams of the engine's own.
#pragma once

struct CUstream_st;

namespace railyard::cuda {

struct Driver;

/// In the current context, for the caller to destroy. Not ordered with the default stream, on which the
/// program may have put anything, and of the greatest priority where the driver has priorities: it then
/// shares no queue of the hardware with the program's streams, which may be waiting for what is put on it.
/// Throws Error{backend}.
[[nodiscard]] CUstream_st* make_own_stream(const Driver& driver);

}  // namespace railyard::cuda
