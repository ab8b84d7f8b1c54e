// Contexts: a device's own, held while it is needed; and one made current for a scope, so that the caller's
// current context and device never change.
#pragma once

#include <atomic>
#include <memory>

struct CUctx_st;

namespace railyard::cuda {

struct Driver;

/// The primary context of a device, retained. Engines, lanes and rings share one by shared_ptr: what was made
/// in a context has to go before it.
class PrimaryContext {
  public:
    /// Keeps a table of its own: who has it may outlive the engine that made it. Throws Error{invalid_param}
    /// for an ordinal that is no device, Error{backend} else. The first one of a process makes the context,
    /// which takes the driver some 100 ms on a real device.
    PrimaryContext(const Driver& driver, int ordinal);
    ~PrimaryContext();
    PrimaryContext(const PrimaryContext&) = delete;
    PrimaryContext& operator=(const PrimaryContext&) = delete;

    [[nodiscard]] CUctx_st* get() const noexcept { return context_; }
    [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
    [[nodiscard]] const Driver& driver() const noexcept { return *driver_; }

    /// Memory of `owner` is about to be copied in this context: another context's is not mapped for kernels
    /// of this one, which would end it with CUDA_ERROR_ILLEGAL_ADDRESS. nullptr: it belongs to none. For all
    /// of the process that have this device's: engines copy each other's memory. Any thread.
    void note_memory_of(const CUctx_st* owner) noexcept {
        if (owner && owner != context_) kernels_reach_all_->store(false, std::memory_order_relaxed);
    }
    /// Of what has been noted.
    [[nodiscard]] bool kernels_reach_all() const noexcept {
        return kernels_reach_all_->load(std::memory_order_relaxed);
    }

  private:
    const std::unique_ptr<const Driver> driver_;
    int ordinal_;
    CUctx_st* context_ = nullptr;
    const std::shared_ptr<std::atomic<bool>> kernels_reach_all_;
};

using ContextPtr = std::shared_ptr<PrimaryContext>;

/// Makes `context` current in this thread and takes it away again. No blocking; nests. Calls under it disturb
/// no stream capture that another thread, or this one, has going.
class ContextGuard {
  public:
    ContextGuard(const Driver& driver, CUctx_st* context) noexcept;
    explicit ContextGuard(const PrimaryContext& context) noexcept;
    ~ContextGuard();
    ContextGuard(const ContextGuard&) = delete;
    ContextGuard& operator=(const ContextGuard&) = delete;

    /// False: the context could not be made current (it was destroyed), and the caller's still is.
    [[nodiscard]] bool pushed() const noexcept { return result_ == 0; }
    /// The CUresult of that: 0 where pushed().
    [[nodiscard]] unsigned result() const noexcept { return result_; }
    /// Throws Error{backend} unless pushed().
    void require() const;

  private:
    void exchange_capture_mode() noexcept;

    const Driver& driver_;
    unsigned result_;        ///< a CUresult
    unsigned capture_mode_;  ///< the thread's own
};

}  // namespace railyard::cuda
