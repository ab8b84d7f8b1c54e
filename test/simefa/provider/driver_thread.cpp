#include "provider/driver_thread.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "provider/domain.h"
#include "provider/environment.h"

namespace simefa {
namespace {

constexpr long pause_ns = 20'000;  // between two rounds; two cores must stay usable

/// Never destroyed, see the registries of src/shared.
struct Driver {
    std::mutex starting;  ///< one add or remove at a time
    std::mutex mutex;     ///< guards domains; held during a round
    std::vector<Domain*> domains;
    std::atomic<bool> stop{false};
    std::unique_ptr<std::thread> thread;

    void run() {
        while (!stop.load()) {
            {
                const std::lock_guard lock(mutex);
                for (Domain* domain : domains)
                    domain->progress();
            }
            const timespec pause{0, pause_ns};
            nanosleep(&pause, nullptr);
        }
    }
};

Driver& driver() {
    static Driver* const instance = new Driver;
    return *instance;
}

}  // namespace

void DriverThread::add(Domain& domain) {
    if (!environment().threaded) return;
    Driver& self = driver();
    const std::lock_guard start(self.starting);
    const std::lock_guard lock(self.mutex);
    self.domains.push_back(&domain);
    if (self.thread) return;
    self.stop.store(false);
    self.thread = std::make_unique<std::thread>([&self] { self.run(); });
    pthread_setname_np(self.thread->native_handle(), "simefa");
}

void DriverThread::remove(Domain& domain) noexcept {
    if (!environment().threaded) return;
    Driver& self = driver();
    const std::lock_guard start(self.starting);
    {
        const std::lock_guard lock(self.mutex);
        std::erase(self.domains, &domain);
        if (!self.domains.empty()) return;
    }
    if (!self.thread) return;
    self.stop.store(true);
    self.thread->join();
    self.thread.reset();
}

}  // namespace simefa
