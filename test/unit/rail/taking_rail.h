// A rail that carries out whatever it is given.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "../stub_rail.h"

namespace railyard {

/// Takes what it is given and ends it well, or keeps it.
class TakingRail : public StubRail {
  public:
    explicit TakingRail(std::uint32_t load = 0) : StubRail("taking") { load_.store(load); }
    using Rail::hand_on;

    std::vector<std::uint32_t> taken;
    std::uint32_t attempts = 0;
    std::atomic<std::uint32_t>* late = nullptr;  ///< of the last submission

  private:
    bool serve(bool) noexcept override {
        take_submissions(pending_);
        while (!pending_.empty()) {
            Submission& submission = *pending_.pop_front();
            Work& work = *submission.lane->work;
            attempts = submission.attempts;
            late = submission.late;
            for (Run run = submission.lane->take_run(8); !run.empty(); run = submission.lane->take_run(8)) {
                for (; !run.empty(); ++run.begin) {
                    taken.push_back(run.begin);
                    work.part_done(Status::ok);
                }
            }
            work.part_done(Status::ok);
        }
        return true;
    }
    PendingList<Submission> pending_;
};

}  // namespace railyard
