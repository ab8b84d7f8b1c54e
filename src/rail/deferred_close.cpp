#include "rail/deferred_close.h"

#include <cstddef>
#include <utility>
#include <vector>

#include <absl/base/thread_annotations.h>

#include "common/mutex.h"

namespace railyard {
namespace {

struct Registry {
    Mutex mutex;
    std::size_t live ABSL_GUARDED_BY(mutex) = 0;
    std::vector<std::shared_ptr<void>> kept ABSL_GUARDED_BY(mutex);
};

Registry& registry() {
    static auto* instance = new Registry;  // outlives static destructors: engines may end after them
    return *instance;
}

}  // namespace

void DeferredClose::opened() noexcept {
    Registry& all = registry();
    const MutexLock lock(all.mutex);
    ++all.live;
}

void DeferredClose::closed(std::shared_ptr<void> resources) noexcept {
    Registry& all = registry();
    std::vector<std::shared_ptr<void>> closing;
    const MutexLock lock(all.mutex);
    all.kept.push_back(std::move(resources));
    if (--all.live == 0) closing.swap(all.kept);
}

}  // namespace railyard
