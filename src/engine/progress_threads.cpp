#include "engine/progress_threads.h"

#include "common/log.h"
#include "common/spoken.h"
#include "topology/thread_binding.h"

namespace railyard {
namespace {

constexpr std::uint32_t wakes_per_look = 64;
/// Of which the application's threads leave some idle, as a rule.
constexpr std::size_t many_cpus = 8;

}  // namespace

ProgressThread::Chore ProgressThreads::chore_of(std::size_t index, const Duties& duties) {
    if (index == 0) {
        return [this, watch = duties.watch, chores = duties.chores] {
            if (company_.resting.load(std::memory_order_relaxed) != 0) [[unlikely]]
                end_rest();
            watch();
            return chores();
        };
    }
    // What it has just brought in is seen to at once; what stays is the first thread's, so that not all of
    // them look at it without a rest.
    return [this, chores = duties.chores] {
        if (chores() && started_.load(std::memory_order_acquire) != 0) threads_.front()->wake();
        return false;
    };
}

void ProgressThreads::start(std::vector<Part> parts, const Manner& manner, const Duties& duties) {
    const bool cpus_to_spare = topology::allowed_cpus() >= many_cpus;
    std::vector<std::unique_ptr<ProgressThread>> made;
    made.reserve(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
        Part& part = parts[i];
        const std::size_t rails = part.rails.size();
        made.push_back(std::make_unique<ProgressThread>(
            std::move(part.rails), manner.pause, manner.caller_passes, chore_of(i, duties),
            i == 0 ? duties.watch_at : nullptr,
            ProgressThread::Place{&company_, static_cast<unsigned>(i), cpus_to_spare}));
        if (i != 0) pthread_setname_np(made.back()->handle(), ("railyard-prog" + std::to_string(i)).c_str());
        if (!part.bound) continue;
        const std::string where = topology::bind_thread(made.back()->handle(), part.cpus);
        RAILYARD_LOG(debug, manner.agent.c_str(), "progress thread %zu: %s of %s, on %s", i,
                     counted(rails, "rail").c_str(), part.place.c_str(), where.c_str());
    }
    threads_ = std::move(made);
    started_.store(threads_.size(), std::memory_order_release);
}

void ProgressThreads::wake_sleepers() noexcept {
    const std::size_t count = started_.load(std::memory_order_acquire);
    if (count == 0) return;
    threads_.front()->wake();
    // Now and then without work, too: where callers post all the time, it finds that they drive, and rests.
    const std::uint32_t wakes = wakes_.load(std::memory_order_relaxed) + 1;
    wakes_.store(wakes, std::memory_order_relaxed);
    for (std::size_t i = 1; i < count; ++i) {
        if (wakes % wakes_per_look == 0) {
            threads_[i]->wake();
        } else {
            threads_[i]->wake_for_work();
        }
    }
}

/// The first is at work: callers drive no more.
void ProgressThreads::end_rest() noexcept {
    const std::size_t count = started_.load(std::memory_order_acquire);
    const std::uint64_t resting = company_.resting.exchange(0, std::memory_order_seq_cst);
    for (std::size_t i = 1; i < count; ++i) {
        if (resting >> i & 1) threads_[i]->take_over();
    }
}

void ProgressThreads::stop() noexcept {
    for (const auto& thread : threads_)
        thread->stop();
}

}  // namespace railyard
