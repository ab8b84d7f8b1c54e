// A program's first launch of a kernel, on the fake driver.
#pragma once

#include <cuda.h>

#include <thread>

#include "cuda/context_guard.h"
#include "fakecuda/control.h"

namespace railyard::test {

/// By a thread of its own: the driver holds the context's lock until the GPU has drained.
class FirstLaunch {
  public:
    /// A driver waits without a limit.
    explicit FirstLaunch(const cuda::ContextPtr& context, unsigned limit_ms = 10'000)
        : thread_([this, context, limit_ms] {
              const cuda::ContextGuard guard(*context);
              answer_ = fakecuda::fake().load_lazily(limit_ms);
          }) {}
    ~FirstLaunch() { join(); }
    FirstLaunch(const FirstLaunch&) = delete;
    FirstLaunch& operator=(const FirstLaunch&) = delete;
    /// Waits for its end. What the driver answers.
    unsigned join() {
        if (thread_.joinable()) thread_.join();
        return answer_;
    }

  private:
    unsigned answer_ = CUDA_ERROR_UNKNOWN;
    std::thread thread_;
};

}  // namespace railyard::test
