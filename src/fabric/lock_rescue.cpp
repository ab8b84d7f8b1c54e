#include "fabric/lock_rescue.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <new>
#include <system_error>
#include <thread>

#include <absl/base/thread_annotations.h>

#include "common/fork_watch.h"
#include "common/log.h"
#include "common/mutex.h"
#include "common/signals_blocked.h"

namespace railyard::fabric {
namespace {

/// What a pthread_spinlock_t holds: another value on one kind of processor than on the other.
struct LockValues {
    int free, held;
};
const LockValues& lock_values() noexcept {
    static const LockValues values = [] {
        pthread_spinlock_t lock;
        pthread_spin_init(&lock, PTHREAD_PROCESS_SHARED);
        const int free = lock;
        pthread_spin_lock(&lock);
        const int held = lock;
        pthread_spin_unlock(&lock);
        pthread_spin_destroy(&lock);
        return LockValues{free, held};
    }();
    return values;
}

/// A lock is taken for a moment by each process that posts: one that is seen held at so many looks in a row
/// is held by none of them.
constexpr int looks_that_tell = 4;
constexpr int looks_after_death = 50;
constexpr int look_every_ms = 2;

}  // namespace

bool EndpointLock::held() const noexcept {
    return std::atomic_ref<int>(*memory_.lock()).load(std::memory_order_relaxed) != lock_values().free;
}

bool EndpointLock::try_take() noexcept {
    int free = lock_values().free;
    return std::atomic_ref<int>(*memory_.lock()).compare_exchange_strong(free, lock_values().held);
}

void EndpointLock::release() noexcept {
    std::atomic_ref<int>(*memory_.lock()).store(lock_values().free, std::memory_order_release);
}

/// Any thread.
class LockRescue::Thread {
  public:
    /// The process's only one, while anybody has it: a parent's does not run in its child. Throws
    /// std::system_error, std::bad_alloc.
    static std::shared_ptr<Thread> shared() {
        struct Shared {
            Mutex mutex;
            std::weak_ptr<Thread> current ABSL_GUARDED_BY(mutex);
        };
        static constinit OfThisProcess<Shared> of_process;
        Shared& shared = of_process.get();
        const MutexLock lock(shared.mutex);
        std::shared_ptr<Thread> thread = shared.current.lock();
        if (!thread) shared.current = thread = std::make_shared<Thread>();
        return thread;
    }

    Thread() : wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), events_{{wake_fd_, POLLIN, 0}} {
        if (wake_fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
        try {
            const SignalsBlocked with_it;
            thread_ = std::thread([this] { run(); });
        } catch (...) {
            close(wake_fd_);
            throw;
        }
        pthread_setname_np(thread_.native_handle(), "railyard-locks");
    }
    ~Thread() {
        {
            const MutexLock lock(mutex_);
            stop_ = true;
        }
        wake();
        thread_.join();
        close(wake_fd_);
    }
    Thread(const Thread&) = delete;
    Thread& operator=(const Thread&) = delete;

    void add(const LockRescue* whose, const PeerProcess& process, std::vector<EndpointLock> locks) {
        {
            // Whole before it is in the list: what is in there and has no LockRescue is never taken out.
            std::vector<int> held(locks.size());
            const MutexLock lock(mutex_);
            watched_.push_back({whose, &process, std::move(locks), std::move(held), 0});
        }
        wake();
    }
    void remove(const LockRescue* whose) noexcept {
        const MutexLock lock(mutex_);
        std::erase_if(watched_, [&](const Watched& watched) { return watched.whose == whose; });
        wake();
    }

  private:
    struct Watched {
        const LockRescue* whose;
        const PeerProcess* process;
        std::vector<EndpointLock> locks;
        std::vector<int> held;  ///< for each lock: looks in a row
        int looks;              ///< since the end of the process

        [[nodiscard]] bool done() const { return looks >= looks_after_death; }
    };

    void wake() const noexcept {
        const std::uint64_t one = 1;
        [[maybe_unused]] const ssize_t full_wakes_too = write(wake_fd_, &one, sizeof one);
    }

    static void look(Watched& watched) noexcept {
        ++watched.looks;
        for (std::size_t i = 0; i < watched.locks.size(); ++i) {
            EndpointLock& lock = watched.locks[i];
            watched.held[i] = lock.held() ? watched.held[i] + 1 : 0;
            if (watched.held[i] < looks_that_tell) continue;
            lock.release();
            watched.held[i] = 0;
            RAILYARD_LOG(info, "shm",
                         "a peer's process was killed while it held the lock of its endpoint: "
                         "released, so that nobody waits for it");
        }
    }

    /// What to wait for, and how long in ms.
    int list() noexcept {
        const MutexLock lock(mutex_);
        if (stop_) return 0;
        events_.resize(1);
        int limit = -1;
        for (Watched& watched : watched_) {
            if (!watched.done() && (watched.looks > 0 || watched.process->ended())) look(watched);
            if (watched.looks == 0 ? !wait_for(*watched.process) : !watched.done()) limit = look_every_ms;
        }
        return limit;
    }

    /// False where there is no memory for it.
    bool wait_for(const PeerProcess& process) noexcept {
        try {
            events_.push_back({process.descriptor(), POLLIN, 0});
            return true;
        } catch (const std::bad_alloc&) {
            return false;
        }
    }

    void run() noexcept {
        while (const int limit = list()) {
            poll(events_.data(), events_.size(), limit);
            std::uint64_t count;
            [[maybe_unused]] const ssize_t none_is_fine = read(wake_fd_, &count, sizeof count);
        }
    }

    const int wake_fd_;
    std::vector<pollfd> events_;  // its own; the first is wake_fd_
    Mutex mutex_;
    bool stop_ ABSL_GUARDED_BY(mutex_) = false;
    std::vector<Watched> watched_ ABSL_GUARDED_BY(mutex_);
    std::thread thread_;  // last: starts when all else is there
};

void LockRescue::set_up(const PeerProcess& process, std::span<const std::string> addresses) noexcept {
    if (!process.watched()) return;
    try {
        std::vector<EndpointLock> locks;
        for (const std::string& address : addresses) {
            EndpointLock lock(address);
            if (lock.seen()) locks.push_back(std::move(lock));
        }
        if (locks.empty()) return;
        std::shared_ptr<Thread> thread = Thread::shared();
        thread->add(this, process, std::move(locks));
        thread_ = std::move(thread);
    } catch (const std::exception& error) {
        RAILYARD_LOG(warn, "shm", "locks of a peer that is killed will not be released: %s", error.what());
    }
}

LockRescue::~LockRescue() {
    if (thread_) thread_->remove(this);
}

}  // namespace railyard::fabric
