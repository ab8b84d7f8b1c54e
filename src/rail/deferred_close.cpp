#include "rail/deferred_close.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <absl/base/thread_annotations.h>

#include "common/fork_watch.h"
#include "common/mutex.h"

namespace railyard {
namespace {

struct Known {
    std::string address;
    std::shared_ptr<void> resources;  // none: it is live
};

struct Registry {
    Mutex mutex;
    std::size_t live ABSL_GUARDED_BY(mutex) = 0;
    std::vector<Known> known ABSL_GUARDED_BY(mutex);        // live, or closed and kept
    std::vector<std::string> names ABSL_GUARDED_BY(mutex);  // of the live and the kept
    const pid_t process = getpid();
};

Registry& registry() {
    static constinit OfThisProcess<Registry> instance;  // engines may end after static destructors
    return instance.get();
}

/// Threads may still work on the memory: it goes with the process, the names go now. A child leaves its
/// parent's alone.
void remove_names() {
    Registry& all = registry();
    if (all.process != getpid() || !all.mutex.try_lock()) return;
    for (const std::string& name : all.names)
        shm_unlink(name.c_str());
    all.mutex.unlock();
}

}  // namespace

void DeferredClose::opened(std::string_view address) {
    static const bool at_exit = std::atexit(remove_names) == 0 && at_quick_exit(remove_names) == 0;
    static_cast<void>(at_exit);
    {
        Registry& all = registry();
        const MutexLock lock(all.mutex);
        all.known.push_back({std::string(address), nullptr});
        ++all.live;
    }
    add_name(address);
}

void DeferredClose::add_name(std::string_view address) noexcept {
    Registry& all = registry();
    const MutexLock lock(all.mutex);
    try {
        // "fi_shm://NAME" and a zero byte.
        const std::size_t scheme = address.find("://");
        if (scheme != address.npos) all.names.emplace_back(address.substr(scheme + 3).data());
    } catch (...) {
        return;  // a file that may stay
    }
}

void DeferredClose::closed(std::string_view address, std::shared_ptr<void> resources) noexcept {
    Registry& all = registry();
    std::vector<Known> closing;
    const MutexLock lock(all.mutex);
    const auto live = std::find_if(all.known.begin(), all.known.end(), [&](const Known& known) {
        return known.address == address && !known.resources;
    });
    if (live != all.known.end()) live->resources = std::move(resources);
    if (--all.live != 0) return;
    closing.swap(all.known);
    all.names.clear();
}

bool DeferredClose::has_closed(std::string_view address) noexcept {
    Registry& all = registry();
    const MutexLock lock(all.mutex);
    return std::any_of(all.known.begin(), all.known.end(),
                       [&](const Known& known) { return known.resources && known.address == address; });
}

}  // namespace railyard
