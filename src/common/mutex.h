// Mutexes with the annotations that let clang check who may touch what.
#pragma once

#include <absl/base/thread_annotations.h>
#include <pthread.h>

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

/// A Mutex that many may hold at once to look. Who wants it alone comes before those who begin to look later:
/// with std::shared_mutex, whose lock prefers readers, it waits for as long as some of them overlap. So a
/// thread that holds it must not look once more.
class ABSL_LOCKABLE SharedMutex {
  public:
    SharedMutex() = default;
    ~SharedMutex() { pthread_rwlock_destroy(&lock_); }
    SharedMutex(const SharedMutex&) = delete;
    SharedMutex& operator=(const SharedMutex&) = delete;

    void lock() noexcept ABSL_EXCLUSIVE_LOCK_FUNCTION() { pthread_rwlock_wrlock(&lock_); }
    void unlock() noexcept ABSL_UNLOCK_FUNCTION() { pthread_rwlock_unlock(&lock_); }
    void lock_shared() noexcept ABSL_SHARED_LOCK_FUNCTION() { pthread_rwlock_rdlock(&lock_); }
    void unlock_shared() noexcept ABSL_UNLOCK_FUNCTION() { pthread_rwlock_unlock(&lock_); }

  private:
    pthread_rwlock_t lock_ = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
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
