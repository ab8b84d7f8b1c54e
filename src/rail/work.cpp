#include "rail/work.h"

namespace railyard {

Rerun::Rerun(const Submission& failed, Run chunks, const Route& instead) {
    submission.rearm();
    submission.route = &instead;
    submission.alternatives = failed.alternatives;
    submission.attempts = failed.attempts + 1;
    submission.lane = failed.lane;
    if (chunks.empty()) return;
    lane.emplace(*failed.lane->work, chunks.begin, chunks.end);
    lane->rewind();
    submission.lane = &*lane;
}

Work::~Work() {
    drop_reruns();
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
