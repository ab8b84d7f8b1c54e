#include "common/fork_watch.h"

#include <pthread.h>

#include <cstring>
#include <forward_list>
#include <string>

#include "common/mutex.h"
#include "common/status.h"

namespace railyard {

std::atomic<std::uint32_t> detail::forks{0};

void watch_forks() {
    static const int error = pthread_atfork(nullptr, nullptr, [] {
        // One thread only lives here.
        detail::forks.store(detail::forks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    });
    if (error != 0)
        throw Error(Status::backend, std::string("pthread_atfork failed: ") + std::strerror(error));
}

void leave_to_parent(void* inherited) noexcept {
    static auto* const mutex = new Mutex;
    static auto* const all = new std::forward_list<void*>;
    try {
        const MutexLock lock(*mutex);
        all->push_front(inherited);
    } catch (...) {
        return;  // a leak after all
    }
}

}  // namespace railyard
