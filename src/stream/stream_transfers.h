// Transfers that are ordered on CUDA streams: each starts once its stream has come to where it was posted.
#pragma once

#include <memory>
#include <string_view>

#include "engine/engine.h"
#include "stream/lanes.h"
#include "stream/stream_watch.h"

namespace railyard {

/// The lanes of one engine, one for each stream that transfers are prepared on. What streams have come to is
/// started along with the rails: by the progress thread, which spins while a stream has not come to a posted
/// transfer, and by polls. Whether streams still live is for a thread of their own (StreamWatch).
class StreamTransfers final : public EngineChore {
  public:
    /// `engine` must live until close(), and must be gone before this goes: its transfers refer to lanes.
    explicit StreamTransfers(Engine& engine);
    /// After close().
    ~StreamTransfers();
    StreamTransfers(const StreamTransfers&) = delete;
    StreamTransfers& operator=(const StreamTransfers&) = delete;

    /// Puts all later posts of `transfer`, which must not have been posted yet, on a stream; `custom_param`
    /// and errors as find_stream() has them, Error{backend} when the driver fails. Any thread. Leaves the
    /// calling thread's current context alone.
    void attach(Transfer& transfer, std::string_view custom_param);

    /// Ends all of it: streams pass their waits, transfers that no stream has come to never start. Waits up
    /// to 2 s for streams to be through with us, and leaves the memory that others may write to allocated; up
    /// to 4 s for the driver.
    void close() noexcept;

    bool run() noexcept override;

  private:
    Engine& engine_;
    const bool read_waits_, write_waits_;
    const std::shared_ptr<Lanes> lanes_;  ///< none where there are no GPUs
    const std::unique_ptr<StreamWatch> watch_;
};

}  // namespace railyard
