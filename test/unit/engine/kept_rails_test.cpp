// Which rail a small transfer takes where several threads post.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <set>
#include <thread>
#include <vector>

#include "../rail/taking_rail.h"
#include "common/clock.h"
#include "engine/callers.h"
#include "engine/route_choice.h"

namespace railyard {
namespace kept_rails_test {

constexpr ThreadTag first = 0x1000, second = 0x2000, third = 0x3000;

class KeptRailsTest : public testing::Test {
  protected:
    void open(const std::vector<std::uint32_t>& loads) {
        for (const std::uint32_t load : loads) {
            Route route;
            route.rail = &rails.emplace_back(load);
            route.path = &paths.emplace_back();
            routes.push_back(std::move(route));
        }
    }
    /// Has a thread use every rail that it may, and says which these are.
    std::set<std::size_t> used_by(ThreadTag thread) {
        std::set<std::size_t> used;
        for (int i = 0; i < 20; ++i) {
            const RailChoice choice = choose_rail(routes, 1, thread, true);
            EXPECT_TRUE(choice.own);
            used.insert(choice.route);
            rails[choice.route].add_load();
        }
        return used;
    }
    struct LoadedRail : TakingRail {
        using TakingRail::TakingRail;
        void add_load() { load_.fetch_add(1); }
        void rest() { load_.store(0); }
    };
    std::deque<LoadedRail> rails;
    std::deque<Path> paths;
    std::vector<Route> routes;
};

TEST_F(KeptRailsTest, OneThreadTakesWhatHasTheLeastToDo) {
    open({3, 1, 2});
    EXPECT_EQ(choose_rail(routes, 1, first, true).route, 1u);
    EXPECT_EQ(used_by(first), (std::set<std::size_t>{0, 1, 2}));
}

TEST_F(KeptRailsTest, ASecondThreadTakesItsShareAndTheFirstKeepsTheRest) {
    open({0, 0, 0, 0});
    ASSERT_EQ(used_by(first).size(), 4u);
    const std::set<std::size_t> its = used_by(second), left = used_by(first);
    EXPECT_EQ(its.size(), 2u);
    EXPECT_EQ(left.size(), 2u);
    for (const std::size_t rail : its)
        EXPECT_FALSE(left.contains(rail)) << rail;
}

TEST_F(KeptRailsTest, AThirdTakesFromWhoHasMore) {
    open({0, 0, 0, 0, 0});
    ASSERT_EQ(used_by(first).size(), 5u);
    ASSERT_EQ(used_by(second).size(), 2u);
    EXPECT_EQ(used_by(third).size(), 1u);
    EXPECT_EQ(used_by(first).size(), 2u);
    EXPECT_EQ(used_by(second).size(), 2u);
}

TEST_F(KeptRailsTest, WithMoreThreadsThanRailsTheLastOneSharesWhatIsLeastLoaded) {
    open({5, 4});
    ASSERT_TRUE(choose_rail(routes, 1, first, true).own);
    ASSERT_TRUE(choose_rail(routes, 1, second, true).own);
    const RailChoice choice = choose_rail(routes, 1, third, true);
    EXPECT_FALSE(choice.own);
    EXPECT_EQ(choice.route, 1u);
    EXPECT_TRUE(choose_rail(routes, 1, first, true).own);
    EXPECT_TRUE(choose_rail(routes, 1, second, true).own);
}

TEST_F(KeptRailsTest, WhoMakesNoPassesKeepsNothing) {
    open({1, 0});
    const RailChoice choice = choose_rail(routes, 1, first, false);
    EXPECT_FALSE(choice.own);
    EXPECT_EQ(choice.route, 1u);
    EXPECT_EQ(rails[0].keeper().thread(), no_thread);
    EXPECT_EQ(rails[1].keeper().thread(), no_thread);
}

TEST_F(KeptRailsTest, WhatNobodyKeepsAnyMoreIsSharedAgain) {
    open({0, 0, 0, 0});
    used_by(first);
    used_by(second);
    for (LoadedRail& rail : rails) {
        rail.rest();
        if (rail.keeper().thread() == second) rail.keeper().set(no_thread);
    }
    EXPECT_EQ(used_by(first).size(), 4u);
}

TEST_F(KeptRailsTest, WhoUsesOneOfItsRailsLooksAfterTheRest) {
    open({0, 0, 0, 0});
    used_by(first);
    const std::set<std::size_t> its = used_by(second);
    for (LoadedRail& rail : rails) {
        rail.rest();
        rail.progress();
    }
    for (int i = 0; i < 3; ++i) {
        std::this_thread::sleep_for(std::chrono::nanoseconds(RailKeeper::patience_ns));
        look_at_keepers(routes, first);
        look_at_keepers(routes, second);
    }
    for (std::size_t rail = 0; rail < rails.size(); ++rail)
        EXPECT_EQ(rails[rail].keeper().thread(), its.contains(rail) ? second : first) << rail;
    for (int i = 0; i < 2; ++i) {
        std::this_thread::sleep_for(std::chrono::nanoseconds(RailKeeper::patience_ns));
        look_at_keepers(routes, second);
    }
    for (std::size_t rail = 0; rail < rails.size(); ++rail)
        EXPECT_EQ(rails[rail].keeper().thread(), its.contains(rail) ? second : no_thread) << rail;
}

TEST_F(KeptRailsTest, PassesOfAProgressThreadDoNotKeepARailForWhoHasLeftIt) {
    open({0, 0});
    used_by(first);
    const std::set<std::size_t> its = used_by(second);
    ASSERT_EQ(its.size(), 1u);
    LoadedRail& rail = rails[*its.begin()];
    static_cast<void>(rail.is_looked_after(now_ns()));
    std::this_thread::sleep_for(std::chrono::nanoseconds(RailKeeper::patience_ns));
    rail.progress(Rail::Looker::background);
    EXPECT_FALSE(rail.is_looked_after(now_ns()));
    EXPECT_EQ(rail.keeper().thread(), no_thread);
}

TEST_F(KeptRailsTest, FailedPathsAreLeftAloneUnlessAllHaveFailed) {
    open({0, 1, 9});
    paths[0].fail();
    EXPECT_EQ(choose_rail(routes, 1, first, true).route, 1u);
    used_by(first);
    const std::set<std::size_t> its = used_by(second);
    EXPECT_EQ(its.size(), 1u);
    EXPECT_FALSE(its.contains(0));
    paths[1].fail();
    paths[2].fail();
    EXPECT_LT(choose_rail(routes, 1, first, true).route, 3u);
}

TEST_F(KeptRailsTest, OfItsOwnAThreadTakesTheOneThroughFirst) {
    open({0, 0, 0, 0});
    used_by(first);
    const std::set<std::size_t> its = used_by(second);
    ASSERT_EQ(its.size(), 2u);
    for (LoadedRail& rail : rails)
        rail.rest();
    rails[*its.begin()].set_weight(Rail::full_weight / 4);
    EXPECT_EQ(choose_rail(routes, 1, second, true).route, *its.rbegin());
}

TEST_F(KeptRailsTest, WhoKeepsASlowRailAloneMeetsOthersOnFastOnes) {
    open({0, 0});
    ASSERT_EQ(used_by(first).size(), 2u);
    const std::size_t its = choose_rail(routes, 1, second, true).route;
    ASSERT_EQ(used_by(second), (std::set<std::size_t>{its}));
    for (LoadedRail& rail : rails)
        rail.rest();
    rails[its].set_weight(Rail::full_weight / 4);
    const RailChoice choice = choose_rail(routes, 1, second, true);
    EXPECT_EQ(choice.route, 1 - its);
    EXPECT_FALSE(choice.own) << "its polls must not leave that rail out";
    EXPECT_EQ(rails[1 - its].keeper().thread(), first);
    rails[its].set_weight(Rail::full_weight * 3 / 4);
    EXPECT_EQ(choose_rail(routes, 1, second, true).route, its) << "not much slower";
}

TEST_F(KeptRailsTest, WhoseRailsHaveAllFailedGetsOthers) {
    open({0, 0, 0, 0});
    used_by(first);
    for (const std::size_t rail : used_by(second))
        paths[rail].fail();
    const RailChoice choice = choose_rail(routes, 1, second, true);
    EXPECT_TRUE(choice.own);
    EXPECT_FALSE(paths[choice.route].failed());
}

TEST_F(KeptRailsTest, AChoiceIsOneOfTheRoutesWhileAllOfThemFail) {
    open({0, 0});
    used_by(first);
    const std::size_t its = choose_rail(routes, 1, second, true).route;
    rails[its].set_weight(Rail::full_weight / 4);
    std::atomic<bool> over{false};
    std::thread failing([&] {
        while (!over) {
            for (Path& path : paths)
                path.fail();
            for (Path& path : paths)
                path.heal();
        }
    });
    std::size_t outside = 0;
    for (int i = 0; i < 300'000; ++i)
        outside += choose_rail(routes, 1, second, true).route < routes.size() ? 0 : 1;
    over = true;
    failing.join();
    EXPECT_EQ(outside, 0u);
}

constexpr std::uint32_t look = Callers::batches_per_look;

void post(Callers& callers, Callers::Place& place, std::uint64_t bytes, std::size_t own, std::size_t all) {
    if (place.count_batch(bytes)) callers.compare(place, own, all);
}

TEST(Callers, WhoPostsItsShareOfBatchesIsFoundAtLooks) {
    Callers callers;
    Callers::Place& place = callers.of(first);
    for (std::uint32_t i = 0; i < look - 1; ++i)
        post(callers, place, 4096, 4, 4);
    EXPECT_FALSE(place.posts_its_share()) << "nobody has looked";
    post(callers, place, 4096, 4, 4);
    EXPECT_TRUE(place.posts_its_share()) << "all of it, on all rails";
    for (std::uint32_t i = 0; i < look; ++i)
        post(callers, place, 4096, 2, 4);
    EXPECT_FALSE(place.posts_its_share()) << "nobody else posts: the others are idle";
}

TEST(Callers, AThreadIsComparedWithAllOthers) {
    Callers callers;
    ASSERT_NE(&callers.of(first), &callers.of(second));
    const auto share_beside = [&](std::uint64_t others) {
        static_cast<void>(callers.of(second).count_batch(others));
        for (std::uint32_t i = 0; i < look; ++i)
            post(callers, callers.of(first), 100, 2, 4);
        return callers.of(first).posts_its_share();
    };
    EXPECT_TRUE(share_beside(look * 100));
    EXPECT_TRUE(share_beside(look * 60));
    EXPECT_FALSE(share_beside(look * 59)) << "more than a quarter more than half";
}

TEST(Callers, ThreadsOfOneSlotHavePlacesOfTheirOwn) {
    Callers callers;
    std::vector<ThreadTag> threads;
    for (ThreadTag thread = first; threads.size() <= thread_slots; thread += first) {
        if (slot_of(thread) == slot_of(first)) threads.push_back(thread);
    }
    std::vector<Callers::Place*> places;
    for (const ThreadTag thread : threads)
        places.push_back(&callers.of(thread));
    EXPECT_EQ(std::set<Callers::Place*>(places.begin(), places.end()).size(), thread_slots);
    EXPECT_EQ(places.back(), places.front()) << "one more than there are places";
    for (std::size_t i = 0; i < threads.size(); ++i)
        EXPECT_EQ(&callers.of(threads[i]), places[i]);
}

TEST(RailKeeper, IsForgottenWhenItHasNotLookedForAWhile) {
    constexpr std::uint64_t start = 1'000'000'000, while_ns = RailKeeper::patience_ns;
    std::atomic<std::uint32_t> looks{7};
    RailKeeper keeper;
    keeper.set(first);
    EXPECT_TRUE(keeper.is_at_it(looks, start));
    EXPECT_TRUE(keeper.is_at_it(looks, start + while_ns - 1)) << "it has not had the time yet";
    looks = 8;
    EXPECT_TRUE(keeper.is_at_it(looks, start + while_ns));
    EXPECT_TRUE(keeper.is_other_than(second));
    EXPECT_FALSE(keeper.is_other_than(first));
    EXPECT_FALSE(keeper.is_at_it(looks, start + 2 * while_ns));
    EXPECT_EQ(keeper.thread(), no_thread);
    EXPECT_FALSE(keeper.is_other_than(second));
}

}  // namespace kept_rails_test
}  // namespace railyard
