// Transfers that are ordered on CUDA streams: each starts once its stream has come to where it was posted.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "common/thread_role.h"
#include "engine/engine.h"
#include "stream/lane.h"

namespace railyard {

/// The lanes of one engine, one for each stream that transfers are prepared on. Looked after along with the
/// rails: by the progress thread, which spins while a stream has not come to a posted transfer, and by polls.
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
    /// to 2 s for streams to be through with us, and leaves the memory that others may write to allocated.
    void close() noexcept;

    bool run() noexcept override;

  private:
    using LanePtr = std::shared_ptr<StreamLane>;

    [[nodiscard]] LanePtr lane_at(std::size_t index) const;
    [[nodiscard]] LanePtr lane_for(const StreamPlace& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(control_);
    LaneMemory& memory_of(Gpu& gpu) ABSL_EXCLUSIVE_LOCKS_REQUIRED(control_);
    void reap() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(control_);
    void start_triggered() noexcept;
    void look_after() noexcept;

    Engine& engine_;
    const bool read_waits_, write_waits_;
    std::atomic<std::uint32_t> armed_{0};
    std::atomic<std::uint64_t> next_look_{0};  ///< ns
    /// Held by whoever makes lanes, checks them or takes them away; the only one to change the list.
    ThreadRole control_;
    bool closed_ ABSL_GUARDED_BY(control_) = false;
    std::map<int, LaneMemory> memories_ ABSL_GUARDED_BY(control_);  ///< by ordinal
    mutable Mutex lanes_mutex_;
    std::vector<LanePtr> lanes_ ABSL_GUARDED_BY(lanes_mutex_);
};

}  // namespace railyard
