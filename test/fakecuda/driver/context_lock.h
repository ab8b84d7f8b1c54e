// The lock of a context: while one thread has it, calls of others with that context current wait.
#pragma once

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>

namespace fakecuda {

class ContextLocks {
  public:
    void take(CUcontext context);
    void release(CUcontext context);
    /// What a call starts with: waits while another thread has the lock of the calling thread's context. Not
    /// for calls that are about the thread alone.
    void pass(CUcontext context, std::string_view function);
    /// Calls that have waited so far.
    [[nodiscard]] std::size_t held_up() const { return held_up_; }

  private:
    std::atomic<std::size_t> taken_{0}, held_up_{0};
    std::mutex mutex_;
    std::condition_variable released_;
    std::map<CUcontext, std::thread::id> holders_;
};

}  // namespace fakecuda
