// What has not ended after a long time, on a sender that cannot be closed before.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "common/fork_watch.h"
#include "fault/process/child.h"
#include "sanitized.h"
#include "taking_rail.h"
#include "waits_to_close.h"

namespace railyard {
namespace {

TEST_F(WaitsToClose, WhatNeverEndsIsGivenUp) {
    std::atomic<std::uint32_t> late{0};
    Offer stuck(rail_, 4, 1, nullptr, 64, &late);
    const std::vector<void*> old = std::exchange(script.posted, {});
    complete({old[0]}, FI_EIO);
    ASSERT_EQ(FabricRailProbe::set_aside(rail_), 1u);
    script_sender();
    EXPECT_FALSE(stuck.work.done());
    EXPECT_EQ(late, 0u);
    FabricRailProbe::end_patience(rail_);
    rail_.progress();
    EXPECT_TRUE(stuck.work.done());
    EXPECT_EQ(late, 4u) << "and what has failed may land, too";
    EXPECT_NE(stuck.work.status(), Status::ok);
    EXPECT_EQ(rail_.load(), 0u);
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 1u) << "it is not closed";
    Offer next(rail_, 3, 2);
    EXPECT_TRUE(ends(next));
    EXPECT_EQ(next.work.status(), Status::ok);
    complete({old[1], old[2]});
    EXPECT_EQ(late, 2u);
    complete({old[3]}, FI_EIO);
    EXPECT_EQ(late, 2u) << "as long as its endpoint is open";
    std::this_thread::sleep_for(std::chrono::milliseconds(150));  // it is looked at less often
    rail_.progress();
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 0u) << "closed after all";
    EXPECT_EQ(late, 0u);
    EXPECT_EQ(rail_.load(), 0u);
}

TEST_F(WaitsToClose, WhatWasGivenUpIsClosedWhenItsPeerIsHeardOf) {
    std::atomic<std::uint32_t> late{0};
    Offer stuck(rail_, 4, 1, nullptr, 64, &late);
    ASSERT_EQ(std::exchange(script.posted, {}).size(), 4u);
    replace();
    FabricRailProbe::end_patience(rail_);
    rail_.progress();
    EXPECT_EQ(stuck.work.status(), Status::remote_disconnect);
    script_messages();
    send(2, 0);
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 1u) << "that is somebody else";
    EXPECT_EQ(late, 4u);
    send(1, 0);
    EXPECT_EQ(late, 0u) << "its endpoint is closed";
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 0u);
    EXPECT_EQ(rail_.load(), 0u);
}

/// What a transfer keeps of its memory, by Work::KeptAs.
std::array<int, 2> kept{};
struct Kept final : KeptMemory {
    explicit Kept(Work::KeptAs how) : as(how) { ++kept[static_cast<std::size_t>(as)]; }
    ~Kept() override { --kept[static_cast<std::size_t>(as)]; }
    const Work::KeptAs as;
};
std::unique_ptr<KeptMemory> keep_one(const Work&, Run run, const Route&, Work::KeptAs as) noexcept {
    EXPECT_EQ(run.size(), 1u);
    return std::make_unique<Kept>(as);
}

/// libfabric may have it queued, and looks at its registration when it goes on.
TEST_F(WaitsToClose, MemoryIsKeptForWhatWasGivenUp) {
    kept = {};
    std::atomic<std::uint32_t> late{0};
    Offer stuck(rail_, 4, 1, nullptr, 64, &late);
    stuck.work.keeps_memory = keep_one;
    const std::vector<void*> old = std::exchange(script.posted, {});
    replace();
    EXPECT_EQ(kept, (std::array{0, 0})) << "its transfer does that";
    FabricRailProbe::end_patience(rail_);
    rail_.progress();
    ASSERT_TRUE(stuck.work.done());
    EXPECT_EQ(kept, (std::array{4, 0}));
    complete({old[0]});
    EXPECT_EQ(kept, (std::array{3, 0}));
    complete({old[1]}, FI_EIO);
    EXPECT_EQ(kept, (std::array{2, 0})) << "the device alone has that now";
    EXPECT_EQ(late, 3u);
    script_messages();
    send(1, 0);
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), 0u);
    EXPECT_EQ(kept, (std::array{0, 0})) << "its endpoint is closed";
    EXPECT_EQ(late, 0u);
}

/// Senders that can never be closed, as many as may be: what is under way on the next one stays there.
class NoneMayBeSetAside : public WaitsToClose {
  protected:
    NoneMayBeSetAside() {
        for (std::size_t i = 0; i < FabricRail::most_given_up; ++i) {
            Offer stuck(rail_, 2, 1);
            script.posted.clear();
            replace_beside(i);
            FabricRailProbe::end_patience(rail_);
            rail_.progress();
            EXPECT_TRUE(stuck.work.done());
        }
    }
    void replace_beside(std::size_t others) {
        EXPECT_TRUE(rail_.request_renewal());
        rail_.progress();
        EXPECT_EQ(FabricRailProbe::set_aside(rail_), others + 1);
        script_sender();
    }
};

TEST_F(NoneMayBeSetAside, WhatIsStoppedThereEnds) {
    std::atomic<std::uint32_t> late{0};
    Offer stuck(rail_, 3, 1, nullptr, 64, &late), well(rail_, 2, 2);
    const std::vector<void*> posted = std::exchange(script.posted, {});
    ASSERT_EQ(posted.size(), 5u);
    stuck.work.stop(Status::canceled);
    rail_.request_renewal();
    rail_.progress();
    EXPECT_EQ(FabricRailProbe::set_aside(rail_), FabricRail::most_given_up);
    EXPECT_FALSE(stuck.work.done()) << "it may still land";
    FabricRailProbe::end_patience(rail_);
    rail_.progress();
    EXPECT_TRUE(stuck.work.done());
    EXPECT_EQ(stuck.work.status(), Status::canceled);
    EXPECT_EQ(late, 3u);
    EXPECT_FALSE(well.work.done());
    complete(posted);
    EXPECT_EQ(late, 0u);
    EXPECT_EQ(well.work.status(), Status::ok);
    EXPECT_EQ(rail_.load(), 0u);
    const std::size_t depth = FabricRailProbe::depth(rail_);
    Offer all(rail_, depth, 1);
    EXPECT_EQ(script.posted.size(), depth) << "its place is free again";
    complete(std::exchange(script.posted, {}));
    for (std::size_t read = 0; read < depth; read += FabricRail::completions_per_round)
        rail_.progress();
    EXPECT_TRUE(all.work.done());
}

TEST_F(NoneMayBeSetAside, WhatFailsThereIsNotCarriedOutElsewhere) {
    TakingRail other;
    Detour detour(rail_, other, 1, 2);
    std::atomic<std::uint32_t> late{0};
    detour.submission.late = &late;
    detour.post();
    const std::vector<void*> posted = std::exchange(script.posted, {});
    ASSERT_EQ(posted.size(), 2u);
    complete({posted[0]}, FI_ECONNABORTED);
    EXPECT_TRUE(other.taken.empty()) << "its sender is open";
    EXPECT_EQ(late, 1u);
    complete({posted[1]});
    EXPECT_TRUE(detour.work.done());
    EXPECT_EQ(detour.work.status(), Status::remote_disconnect);
}

/// A thread may close the endpoints, and libfabric copy until then.
TEST_F(WaitsToClose, MemoryOfOursStaysUntilTheEndpointsAreClosed) {
    auto rail = std::make_unique<FabricRail>("other", waiting(), sink_, FabricRailConfig{});
    auto memory = std::make_shared<const std::array<std::byte, 4096>>();
    const std::weak_ptr<const void> seen = memory;
    MemoryRange range{reinterpret_cast<std::uint64_t>(memory->data()), memory->size()};
    range.owner = std::move(memory);
    RegisteredMemory registered = rail->register_memory(std::exchange(range, {}));
    rail->deregister_memory(registered);
    EXPECT_FALSE(seen.expired());
    rail.reset();
    EXPECT_TRUE(seen.expired());
}

namespace slow_closing {

constexpr unsigned takes_us = 2'000'000;  // longer than a rail that goes waits for it
fi_ops* real = nullptr;
std::atomic<bool>* over = nullptr;  // in memory that the parent sees

int close_slowly(fid* endpoint) {
    usleep(takes_us);
    const int result = real->close(endpoint);
    over->store(true);
    return result;
}

}  // namespace slow_closing

/// The exit waits for threads in libfabric, in a child, too, whose parent had some.
TEST_F(WaitsToClose, AChildThatExitsWaitsForTheRailsThatItCloses) {
    using namespace slow_closing;
    if (test::sanitized) GTEST_SKIP() << "a child starts no threads there, or waits for a lock of another's";
    watch_forks();
    std::make_unique<FabricRail>("parent's", waiting(), sink_, FabricRailConfig{}).reset();
    void* const shared =
        mmap(nullptr, sizeof *over, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    over = new (shared) std::atomic<bool>(false);
    test::Child child(test::Child::End::with_destructors, [] {
        static NullSink sink;
        auto rail = std::make_unique<FabricRail>("child's", waiting(), sink, FabricRailConfig{});
        fid& endpoint = FabricRailProbe::endpoint(*rail)->fid;
        static fi_ops slow;
        real = endpoint.ops;
        slow = *real;
        slow.close = close_slowly;
        endpoint.ops = &slow;
        rail.reset();
        return over->load() ? 2 : 0;  // 2: nothing is tested
    });
    EXPECT_EQ(child.outcome(), "exit 0");
    EXPECT_TRUE(over->load()) << "the process ended under a thread in libfabric";
    munmap(shared, sizeof *over);
}

}  // namespace
}  // namespace railyard
