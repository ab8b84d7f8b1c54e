#include "rail/local_rail.h"

#include <cstring>

namespace railyard {

bool LocalRail::serve(bool) noexcept {
    waiting_ += take_submissions(pending_);
    std::uint64_t copied = 0;
    bool worked = false;
    while (!pending_.empty() && copied < bytes_per_round) {
        Submission& submission = *pending_.pop_front();
        Lane& lane = *submission.lane;
        Work& work = *lane.work;
        const Run run = lane.take_run(lane.run_length);
        for (std::uint32_t i = run.begin; i < run.end; ++i) {
            if (const Status status = work.status(); status != Status::ok) {
                work.part_done(status);
                continue;
            }
            const Chunk& chunk = work.chunks[i];
            auto* local = reinterpret_cast<void*>(chunk.local);
            auto* remote = reinterpret_cast<void*>(chunk.remote);
            const bool read = work.kind == Work::Kind::read;
            std::memmove(read ? local : remote, read ? remote : local, chunk.length);
            copied += chunk.length;
            work.part_done(Status::ok);
        }
        worked = true;
        if (!run.empty()) {
            pending_.push_back(submission);
        } else {
            --waiting_;
            work.part_done(Status::ok);
        }
    }
    load_.store(waiting_, std::memory_order_relaxed);
    return worked;
}

}  // namespace railyard
