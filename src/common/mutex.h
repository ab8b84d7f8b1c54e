// std::mutex with the annotations that let clang check who may touch what.
#pragma once

#include <absl/base/thread_annotations.h>

#include <mutex>
#include <shared_mutex>

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

/// A Mutex that many may hold at once to look.
class ABSL_LOCKABLE SharedMutex {
  public:
    void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
    void unlock() noexcept ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
    void lock_shared() ABSL_SHARED_LOCK_FUNCTION() { mutex_.lock_shared(); }
    void unlock_shared() noexcept ABSL_UNLOCK_FUNCTION() { mutex_.unlock_shared(); }

  private:
    std::shared_mutex mutex_;
};

/// Holds a SharedMutex for a scope, alone: to change what it guards.
class ABSL_SCOPED_LOCKABLE ExclusiveLock {
  public:
    explicit ExclusiveLock(SharedMutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
        mutex_.lock();
    }
    ~ExclusiveLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
    ExclusiveLock(const ExclusiveLock&) = delete;
    ExclusiveLock& operator=(const ExclusiveLock&) = delete;

  private:
    SharedMutex& mutex_;
};

/// Holds a SharedMutex for a scope, beside others: to look.
class ABSL_SCOPED_LOCKABLE SharedLock {
  public:
    explicit SharedLock(SharedMutex& mutex) ABSL_SHARED_LOCK_FUNCTION(mutex) : mutex_(mutex) {
        mutex_.lock_shared();
    }
    ~SharedLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock_shared(); }
    SharedLock(const SharedLock&) = delete;
    SharedLock& operator=(const SharedLock&) = delete;

  private:
    SharedMutex& mutex_;
};

}  // namespace railyard
