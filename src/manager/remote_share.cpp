#include "manager/remote_share.h"

#include <mutex>
#include <utility>

#include "common/log.h"
#include "manager/gpu_path.h"

namespace railyard {

std::vector<std::uint64_t> RemoteShares::instances() const {
    std::vector<std::uint64_t> found;
    const MutexLock lock(mutex_);
    for (const auto& [instance, share] : shares_) {
        if (found.empty() || found.back() != instance) found.push_back(instance);
    }
    return found;
}

void RemoteShares::let_go(std::uint64_t instance, const std::function<bool(std::uint64_t)>& is_there,
                          std::vector<ImportPtr>& dropped) {
    const MutexLock lock(mutex_);
    for (auto [at, end] = shares_.equal_range(instance); at != end; ++at) {
        if (!is_there(at->second->word_)) at->second->let_go(dropped, false);
    }
}

void RemoteShares::give_up(std::uint64_t instance, std::vector<ImportPtr>& all) {
    const MutexLock lock(mutex_);
    for (auto [at, end] = shares_.equal_range(instance); at != end; ++at)
        at->second->let_go(all, true);
}

void RemoteShares::add(std::uint64_t instance, RemoteShare& share) {
    const MutexLock lock(mutex_);
    shares_.emplace(instance, &share);
    count_.store(shares_.size(), std::memory_order_relaxed);
}

void RemoteShares::remove(std::uint64_t instance, const RemoteShare& share) noexcept {
    const MutexLock lock(mutex_);
    for (auto [at, end] = shares_.equal_range(instance); at != end; ++at) {
        if (at->second != &share) continue;
        shares_.erase(at);
        break;
    }
    count_.store(shares_.size(), std::memory_order_relaxed);
}

/// Before its mappings go, which the driver may wait for.
RemoteShare::~RemoteShare() {
    if (fork_generation() != process_) return;  // the mutex may be anybody's, and nobody looks
    bool known = false;
    {
        const MutexLock lock(mutex_);
        known = known_;
    }
    if (known) all_->remove(instance_, *this);
}

std::optional<RemoteShare::Mapped> RemoteShare::map_for(GpuPath& gpu, bool own_process,
                                                        const std::string& agent) {
    if (own_process) return Mapped{};
    bool known = true;
    Mapped mapped;
    {
        const MutexLock lock(mutex_);
        Place& place = places_[&gpu];
        if (!std::exchange(place.tried, true)) {
            std::string why;
            try {
                place.held = gpu.imports().open(gpu.gpu().context(), allocation_, why);
                place.latest = place.held;
            } catch (const Error& error) {
                why = error.what();
            }
            if (!place.held)
                RAILYARD_LOG(info, agent.c_str(),
                             "its GPU memory is not copied by our GPU %d, but goes the usual way: %s",
                             gpu.gpu().ordinal(), why.c_str());
        }
        if (!place.held) return std::nullopt;
        mapped = {place.held->address() - allocation_.start, place.held};
        known = std::exchange(known_, true);
    }
    if (!known) make_known();
    return mapped;
}

/// Not with the mutex held, which those who look take after theirs.
void RemoteShare::make_known() {
    try {
        all_->add(instance_, *this);
    } catch (...) {
        const MutexLock lock(mutex_);
        known_ = false;
        throw;
    }
}

/// Who has the mutex may be waiting for the driver: then it is the next look's.
void RemoteShare::let_go(std::vector<ImportPtr>& dropped, bool also_latest) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    for (auto& [gpu, place] : places_) {
        if (place.held) {
            dropped.push_back(place.held);
            place.held = nullptr;
            place.tried = false;
        }
        if (!also_latest) continue;
        if (ImportPtr latest = place.latest.lock()) dropped.push_back(std::move(latest));
        place.latest.reset();
    }
}

}  // namespace railyard
