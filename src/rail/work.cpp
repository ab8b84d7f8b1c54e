#include "rail/work.h"

#include <memory>
#include <numeric>

namespace railyard {

Rerun::Rerun(const Submission& failed, Run chunks, const Route& instead) {
    submission.rearm();
    submission.route = &instead;
    submission.alternatives = failed.alternatives;
    submission.attempts = failed.attempts + 1;
    submission.late = failed.late;
    submission.lane = failed.lane;
    if (chunks.empty()) return;
    lane.emplace(*failed.lane->work, chunks.begin, chunks.end);
    lane->rewind();
    submission.lane = &*lane;
}

Work::~Work() {
    drop_reruns();
    drop_replaced_immediates();
}

void Work::replace_immediate(std::uint32_t chunk, std::uint32_t by) {
    std::uint32_t* replaced = replaced_immediates_.load(std::memory_order_acquire);
    if (!replaced) {
        auto fresh = std::make_unique<std::uint32_t[]>(chunks.size());
        std::iota(fresh.get(), fresh.get() + chunks.size(), *immediate);
        // Another rail may have a chunk that is posted again, too.
        if (replaced_immediates_.compare_exchange_strong(replaced, fresh.get(), std::memory_order_acq_rel,
                                                         std::memory_order_acquire))
            replaced = fresh.release();
    }
    replaced[chunk] = by;
}

void Work::drop_replaced_immediates() noexcept {
    delete[] replaced_immediates_.exchange(nullptr, std::memory_order_relaxed);
}

void Work::keep(std::unique_ptr<Rerun> rerun) noexcept {
    rerun->next = reruns_.load(std::memory_order_relaxed);
    // Release: whoever drops them reads their links. It comes after the round, so nobody pops meanwhile.
    while (!reruns_.compare_exchange_weak(rerun->next, rerun.get(), std::memory_order_release,
                                          std::memory_order_relaxed)) {
    }
    static_cast<void>(rerun.release());
}

void Work::drop_reruns() noexcept {
    Rerun* rerun = reruns_.exchange(nullptr, std::memory_order_acquire);
    while (rerun) {
        const std::unique_ptr<Rerun> over(rerun);
        rerun = over->next;
    }
}

}  // namespace railyard
