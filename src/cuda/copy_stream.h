// Copies on a stream of our own, polled for without blocking: staging, and transfers within one process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "common/status.h"
#include "cuda/context_guard.h"
#include "cuda/copy_batch.h"

struct CUstream_st;
struct CUevent_st;

namespace railyard::cuda {

/// Any two places that the driver can tell apart by address: devices, pinned and plain host memory (the last
/// is slow, and the call may block).
struct Copy {
    std::uint64_t to = 0;
    std::uint64_t from = 0;
    std::uint64_t length = 0;
};

class CopyKernel;

/// What threads of the GPU may touch of a group's copies, so that they may be done by a kernel, many at once.
enum class Reach : std::uint8_t {
    unknown,  ///< not all of it: host memory of the program, another GPU without a way there, or what may be
              ///< unmapped
    gpus,     ///< memory of GPUs on both sides
    pinned,   ///< pinned memory of the context on one side, its GPU's on the other
};

/// `tickets` groups of copies may be under way at once; a ticket is the caller's, one group at a time. Any
/// thread; calls of one ticket come one after the other. Groups end in the order in which they were started.
class CopyStream {
    struct Ticket {
        CUevent_st* event = nullptr;
        bool busy = false, failed = false;
        bool started = false;   ///< copies may be under way
        bool recorded = false;  ///< the event stands behind them
        bool left = false;      ///< given up, and may still be under way
    };

  public:
    /// `kernel`: of the context; nullptr: each copy is one of the driver's. Throws Error{backend}.
    CopyStream(ContextPtr context, unsigned tickets, std::shared_ptr<const CopyKernel> kernel = nullptr);
    /// Waits for the copies under way, which depend on nothing but the device.
    ~CopyStream();
    CopyStream(const CopyStream&) = delete;
    CopyStream& operator=(const CopyStream&) = delete;

    /// The copies of a ticket, in no order; under way when this goes. Short-lived: holds the context current.
    /// Allocates nothing. What the driver refuses is told by poll(), as others may be under way.
    class Group {
      public:
        Group(CopyStream& stream, unsigned ticket, Reach reach = Reach::unknown) noexcept;
        ~Group();
        Group(const Group&) = delete;
        Group& operator=(const Group&) = delete;
        void add(const Copy& copy) noexcept;

      private:
        void start(const Copy& copy) noexcept;
        void start_kept() noexcept;

        CopyStream& stream_;
        Ticket& ticket_;
        ContextGuard guard_;
        const std::uint64_t kept_up_to_;  ///< bytes of a copy; 0: none is kept
        CopyBatch kept_;                  ///< for the kernel
        unsigned kept_count_ = 0;
        std::uint32_t longest_kept_ = 0;
    };
    /// in_progress, ok, or backend with the reason in last_error() and in the log. not_posted: no group was
    /// started. After ok and backend nothing of the group is under way, unless it has_left(), and the ticket
    /// is free. Does not block; a driver that does not say is asked for unanswered_limit_ns.
    Status poll(unsigned ticket) noexcept;
    /// poll() has given the ticket's group up, and still nobody knows that it has ended: its copies may touch
    /// their memory. Asks again; before the ticket's next group.
    [[nodiscard]] bool has_left(unsigned ticket) noexcept;
    /// "cuMemcpyAsync: CUDA_ERROR_..."; empty: nothing failed yet.
    [[nodiscard]] std::string last_error() const;
    [[nodiscard]] const ContextPtr& context() const noexcept { return context_; }

  private:
    void destroy() noexcept;
    struct Answer {
        enum class Is : std::uint8_t { over, under_way, unknown } is;
        const char* call;
        unsigned result;
    };
    Answer ask(Ticket& ticket) noexcept;
    bool may_be_under_way(Ticket& ticket) noexcept;
    void fail(Ticket& ticket, const char* call, unsigned result) noexcept;

    ContextPtr context_;
    const std::shared_ptr<const CopyKernel> kernel_;
    CUstream_st* stream_ = nullptr;
    std::vector<Ticket> tickets_;
    /// The driver's first error when it was last asked, without an answer since; 0: it answers.
    std::atomic<std::uint64_t> unanswered_since_ns_{0};
    mutable Mutex mutex_;
    const char* failed_call_ ABSL_GUARDED_BY(mutex_) = nullptr;
    unsigned failed_result_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace railyard::cuda
