// Senders that are replaced: while there is no memory for it, and where nothing would ever end.
#include "failing_new.h"
#include "scripted_rail.h"
#include "taking_rail.h"

namespace railyard {
namespace {

TEST_F(FabricRailTest, ARenewalThatFindsNoMemoryIsMadeUpFor) {
    for (long left = 0; left < 6; ++left) {
        const std::uint32_t before = rail_.sender_generation();
        one_failed = false;
        ASSERT_TRUE(rail_.request_renewal());
        allocations_left = left;
        rail_.progress();
        allocations_left = -1;
        EXPECT_TRUE(one_failed || left > 1) << "nothing was tested";
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (rail_.sender_generation() == before && std::chrono::steady_clock::now() < limit)
            rail_.progress();
        EXPECT_NE(rail_.sender_generation(), before) << "after " << left << " allocations";
    }
}

/// A completion queue that was overrun never tells of anything again.
TEST_F(FabricRailTest, WhatIsUnderWayWhenTheCompletionQueueBreaksGoesOverAnotherRail) {
    TakingRail other;
    Detour detour(rail_, other, 1);
    const Work& work = detour.work;
    detour.post();
    EXPECT_EQ(script.posted.size(), 20u);
    script.queue_answer = -FI_EOVERRUN;
    rail_.progress();
    rail_.progress();
    EXPECT_TRUE(work.done()) << "in two passes: one hears of it";
    EXPECT_EQ(work.status(), Status::ok);
    EXPECT_EQ(other.taken.size(), 20u);
    EXPECT_TRUE(detour.usual.failed());
    EXPECT_FALSE(rail_.has_work());

    detour.post();
    rail_.request_renewal();
    rail_.progress();
    EXPECT_EQ(work.status(), Status::ok) << "and what is posted afterwards";
    EXPECT_EQ(other.taken.size(), 40u);
    EXPECT_FALSE(rail_.has_work()) << "nothing is tried for ever";
}

}  // namespace
}  // namespace railyard
