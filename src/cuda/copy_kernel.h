// A kernel that copies many small pieces in one launch: the driver's copies cost a call of 3 us each.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda/context_guard.h"
#include "cuda/copy_batch.h"

struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;

namespace railyard::cuda {

/// Loaded into one context. Any thread.
class CopyKernel {
  public:
    /// nullptr, with the reason in the log (info): the driver does not take it. Compiling takes it some 10 ms
    /// the first time on a machine.
    [[nodiscard]] static std::shared_ptr<const CopyKernel> load(ContextPtr context);
    ~CopyKernel();
    CopyKernel(const CopyKernel&) = delete;
    CopyKernel& operator=(const CopyKernel&) = delete;

    /// Puts it on a stream of the context, which is current. The first `pieces` of the batch, 1 to
    /// pieces_per_launch, all within what threads of the GPU may touch; `longest` of them, bytes. The batch
    /// is the caller's again at once. False: the driver refused, which is logged, and nothing is copied.
    [[nodiscard]] bool launch(const CopyBatch& batch, unsigned pieces, std::uint32_t longest,
                              CUstream_st* stream) const noexcept;

  private:
    CopyKernel(ContextPtr context, CUmod_st* module, CUfunc_st* function)
        : context_(std::move(context)), module_(module), function_(function) {}

    const ContextPtr context_;
    CUmod_st* const module_;
    CUfunc_st* const function_;
};

}  // namespace railyard::cuda
