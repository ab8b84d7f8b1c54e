// std::mutex with the annotations that let clang check who may touch what.
#pragma once

#include <absl/base/thread_annotations.h>

#include <mutex>

namespace railyard {

/// For control paths: the hot path takes no lock but a rail's role.
class ABSL_LOCKABLE Mutex {
  public:
    void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
    void unlock() noexcept ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
    [[nodiscard]] bool try_lock() noexcept ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }

  private:
    std::mutex mutex_;
};

/// Holds a Mutex for a scope.
class ABSL_SCOPED_LOCKABLE MutexLock {
  public:
    explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_.lock(); }
    ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
    MutexLock(const MutexLock&) = delete;
    MutexLock& operator=(const MutexLock&) = delete;

  private:
    Mutex& mutex_;
};

}  // namespace railyard
