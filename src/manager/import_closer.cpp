#include "manager/import_closer.h"

#include <pthread.h>

#include <exception>
#include <utility>

#include "common/signals_blocked.h"

namespace railyard {

ImportCloser::~ImportCloser() {
    std::thread last;
    {
        const MutexLock lock(mutex_);
        last.swap(thread_);
    }
    if (last.joinable()) last.join();
}

void ImportCloser::hand_over(Batch batch) noexcept {
    if (!batch.imports.empty() && !leave_to_thread(batch)) work_off(batch);
}

bool ImportCloser::leave_to_thread(Batch& batch) noexcept {
    const MutexLock lock(mutex_);
    try {
        batches_.reserve(batches_.size() + 1);
        if (!running_) {
            if (thread_.joinable()) thread_.join();
            const SignalsBlocked with_it;
            thread_ = std::thread([this] { run(); });
            running_ = true;
            pthread_setname_np(thread_.native_handle(), "railyard-unmap");
        }
    } catch (const std::exception&) {
        return false;
    }
    batches_.push_back(std::move(batch));
    return true;
}

void ImportCloser::work_off(Batch& batch) noexcept {
    if (batch.for_everybody) {
        for (const ImportPtr& import : batch.imports)
            import->close();
    }
    batch.imports.clear();
}

void ImportCloser::run() noexcept {
    while (true) {
        std::vector<Batch> batches;
        {
            const MutexLock lock(mutex_);
            running_ = !batches_.empty();
            if (!running_) return;
            batches.swap(batches_);
        }
        for (Batch& batch : batches)
            work_off(batch);
    }
}

}  // namespace railyard
