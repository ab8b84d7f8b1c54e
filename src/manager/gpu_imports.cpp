#include "manager/gpu_imports.h"

namespace railyard {

GpuImports::GpuImports() : table_(std::make_shared<Table>()) {}

GpuImports::~GpuImports() {
    const MutexLock lock(table_->mutex);
    for (const auto& [allocation, entry] : table_->entries)
        cuda::close_shared(*table_->context, entry.address);
    table_->entries.clear();
    table_->context = nullptr;
}

GpuImports::Import::~Import() {
    if (fork_generation() != process_) return;  // the mutex may be anybody's, too
    const MutexLock lock(table_->mutex);
    const auto at = table_->entries.find(allocation_);
    // Another one may have been opened since the last owner of this let it go.
    if (at == table_->entries.end() || !at->second.import.expired()) return;
    cuda::close_shared(*table_->context, at->second.address);
    table_->entries.erase(at);
}

void GpuImports::Import::close() const {
    std::shared_ptr<const Import> known;  // goes after the lock, as it may be the last one of another
    const MutexLock lock(table_->mutex);
    const auto at = table_->entries.find(allocation_);
    if (at == table_->entries.end()) return;
    known = at->second.import.lock();
    if (known.get() != this) return;
    cuda::close_shared(*table_->context, at->second.address);
    table_->entries.erase(at);
}

std::shared_ptr<const GpuImports::Import> GpuImports::open(const cuda::ContextPtr& context,
                                                           const cuda::SharedAllocation& allocation,
                                                           std::string& why) {
    const MutexLock lock(table_->mutex);
    table_->context = context;
    const auto [at, added] = table_->entries.try_emplace(allocation);
    if (auto known = at->second.import.lock()) return known;
    // Its last owner has let it go, and has not come to closing it: then it stays open, and is that one's no
    // more.
    if (added) {
        try {
            why = cuda::open_shared(*context, allocation, at->second.address);
        } catch (...) {
            table_->entries.erase(at);  // else it would be taken for one that is open, at no address
            throw;
        }
        if (!why.empty()) {
            table_->entries.erase(at);
            return nullptr;
        }
    }
    auto import = std::make_shared<const Import>(table_, allocation, at->second.address);
    at->second.import = import;
    return import;
}

}  // namespace railyard
