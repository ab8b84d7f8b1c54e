#include "plugin/memory_table.h"

namespace railyard::plugin {

MemoryHandle* MemoryTable::adopt(std::unique_ptr<MemoryHandle> handle) {
    MemoryHandle* const pointer = handle.get();
    const ExclusiveLock lock(mutex_);
    const auto [position, inserted] = handles_.try_emplace(pointer, std::move(handle));
    if (pointer->local == nullptr) return pointer;
    try {
        local_regions_.emplace(pointer->address_, Range{pointer->address_, pointer->length_, pointer->type_});
        pointer->listed_ = true;
    } catch (...) {
        handles_.erase(position);
        throw;
    }
    return pointer;
}

// The analysis does not see that lock_ is of the table's mutex.
const MemoryHandle* MemoryTable::Lookup::look_up(const nixlBackendMD* pointer)
    ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const auto found = table_.handles_.find(pointer);
    last_ = found == table_.handles_.end() ? nullptr : found->second.get();
    last_pointer_ = pointer;
    return last_;
}

void MemoryTable::withdraw(const nixlBackendMD* pointer) noexcept {
    const ExclusiveLock lock(mutex_);
    const auto found = handles_.find(pointer);
    if (found != handles_.end()) unlist(*found->second);
}

std::unique_ptr<MemoryHandle> MemoryTable::remove(const nixlBackendMD* pointer) {
    const ExclusiveLock lock(mutex_);
    const auto found = handles_.find(pointer);
    if (found == handles_.end()) return nullptr;
    std::unique_ptr<MemoryHandle> handle = std::move(found->second);
    handles_.erase(found);
    unlist(*handle);
    return handle;
}

void MemoryTable::unlist(MemoryHandle& handle) noexcept {
    if (!std::exchange(handle.listed_, false)) return;
    for (auto [region, end] = local_regions_.equal_range(handle.address_); region != end; ++region) {
        if (region->second.length != handle.length_ || region->second.type != handle.type_) continue;
        local_regions_.erase(region);
        return;
    }
}

std::optional<MemoryTable::Range> MemoryTable::region_around(const Range& wanted) const {
    const SharedLock lock(mutex_);
    // Regions that begin behind its start cannot hold it; any before may, since they overlap as they like.
    for (auto region = local_regions_.begin(), end = local_regions_.upper_bound(wanted.address);
         region != end; ++region) {
        const Range& known = region->second;
        if (known.type == wanted.type && wanted.length <= known.length &&
            wanted.address - known.address <= known.length - wanted.length)
            return known;
    }
    return std::nullopt;
}

}  // namespace railyard::plugin
