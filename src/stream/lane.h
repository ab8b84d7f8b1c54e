// A lane: the transfers posted on one CUDA stream, numbered in the stream's order.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"
#include "common/status.h"
#include "engine/start_control.h"
#include "stream/armed_count.h"
#include "stream/lane_memory.h"
#include "stream/stream_handle.h"

struct CUevent_st;

namespace railyard {

namespace cuda {
struct Driver;
}

class StreamLane;

/// One transfer on a stream: what the engine tells of it reaches its lane. Made with the transfer's
/// preparation; frees itself when the transfer goes.
class HeldTransfer final : public StartControl {
  public:
    /// `waits`: what is enqueued on the stream after the post is not run before the transfer has ended.
    HeldTransfer(std::shared_ptr<StreamLane> lane, Transfer& transfer, bool waits);

    Status hold(Transfer& transfer) noexcept override;
    void data_ended(Transfer& transfer, Status status) noexcept override;
    void stopped(Transfer& transfer) noexcept override;
    void gone(Transfer& transfer) noexcept override;

    [[nodiscard]] Transfer& transfer() const noexcept { return transfer_; }
    /// The next one of a StartList.
    [[nodiscard]] HeldTransfer* next_start() const noexcept { return next_start_; }

  private:
    friend class StreamLane;
    friend struct StartList;

    const std::shared_ptr<StreamLane> lane_;
    Transfer& transfer_;
    const bool waits_;
    // Of the lane, under its queue's lock.
    std::uint64_t number_ = 0;
    bool armed_ = false;  ///< posted and not started
    HeldTransfer *previous_ = nullptr, *next_ = nullptr;
    HeldTransfer* next_start_ = nullptr;
};

/// Transfers that nobody else starts any more, in the order in which they are to be started.
struct StartList {
    HeldTransfer *first = nullptr, *last = nullptr;
    void append(HeldTransfer& held) noexcept;
};

/// Two locks. One is held by a post over its driver calls, so that numbers follow the stream's order. The
/// other is short and guards the queue: it is taken where data ends, perhaps with a rail's role held, while a
/// driver call of a post may be waiting for exactly that.
class StreamLane {
  public:
    /// `memory` of the stream's GPU must live until close(), `armed` and the driver as long as the lane.
    /// Throws Error{backend}.
    StreamLane(const cuda::Driver& driver, const StreamPlace& place, LaneMemory& memory, ArmedCount& armed);
    ~StreamLane() = default;
    StreamLane(const StreamLane&) = delete;
    StreamLane& operator=(const StreamLane&) = delete;

    [[nodiscard]] const StreamPlace& place() const noexcept { return place_; }
    /// Transfers prepared on it.
    std::atomic<std::uint32_t> users{0};

    /// Puts the transfer behind what is on the stream. in_progress; not_supported while the stream is being
    /// captured; not_allowed while another thread's default stream has not come to what was posted there;
    /// backend when the driver refuses; with a log line each. May block where the stream's queue is full.
    Status post(HeldTransfer& held) noexcept;
    void ended(HeldTransfer& held) noexcept;
    /// A transfer's round has been stopped: collect() is to look for it.
    void stopped() noexcept;

    /// Appends what the stream has come to, and what was stopped; nothing after open(). Cheap where there is
    /// nothing.
    void collect(StartList& list) noexcept;
    /// Asks the driver whether the stream still lives; ends what it will never come to. Does nothing while
    /// somebody posts.
    void check() noexcept;
    /// True when nothing on the stream uses the lane's words any more. Asks the driver.
    [[nodiscard]] bool finished() noexcept;
    /// Lets the stream pass every wait for this lane, now and later. From here on no transfer is touched.
    void open() noexcept;
    /// Gives the driver's things back; the words too where the stream is through with them. Posts are refused
    /// from then on, what is in flight may still end.
    void close(bool stream_is_through) noexcept;

  private:
    Status put_on_stream(const HeldTransfer& held, std::uint64_t number) noexcept
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(post_mutex_);
    Status refuse(const char* call, unsigned result) const noexcept;
    Status refuse_capture() const noexcept;
    Status take_over() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(post_mutex_);
    unsigned record_event() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(post_mutex_);
    bool has_gone(unsigned result) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(post_mutex_);
    void enqueue(HeldTransfer& held, std::uint64_t number) noexcept;
    void skip(std::uint64_t number) noexcept;
    void fail_armed(const char* why) noexcept;
    void publish() noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_mutex_);

    const cuda::Driver& driver_;
    const StreamPlace place_;
    LaneMemory& memory_;
    ArmedCount& armed_;
    const LaneMemory::Cell cell_;

    Mutex post_mutex_;                                          // taken before the other one
    CUevent_st* event_ ABSL_GUARDED_BY(post_mutex_) = nullptr;  ///< behind the last post
    bool event_behind_ ABSL_GUARDED_BY(post_mutex_) = true;     ///< false: its recording failed
    /// The driver's first error when it was last asked for the event, without an answer since; 0: it answers.
    std::uint64_t unanswered_since_ns_ ABSL_GUARDED_BY(post_mutex_) = 0;
    bool closed_ ABSL_GUARDED_BY(post_mutex_) = false;
    /// Of StreamPlace::per_thread: whose stream the last post went to. Not a ThreadTag, which comes again
    /// with the next thread.
    pid_t poster_ ABSL_GUARDED_BY(post_mutex_) = 0;

    Mutex queue_mutex_;
    HeldTransfer *first_ ABSL_GUARDED_BY(queue_mutex_) = nullptr,
                         *last_ ABSL_GUARDED_BY(queue_mutex_) = nullptr;
    HeldTransfer* first_armed_ ABSL_GUARDED_BY(queue_mutex_) = nullptr;
    std::uint64_t issued_ ABSL_GUARDED_BY(queue_mutex_) = 0;  ///< the last number that was given or skipped
    bool open_ ABSL_GUARDED_BY(queue_mutex_) = false;
    /// Number of first_armed_, UINT64_MAX for none: what collect() looks at without the lock.
    std::atomic<std::uint64_t> next_number_{UINT64_MAX};
    /// Written with the queue's lock held, read by collect() without.
    std::atomic<bool> any_stopped_{false};
};

}  // namespace railyard
